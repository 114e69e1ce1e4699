// cart-worker.ts
import { handle, kind, type Leasehold, queue, type RingChange, type Worker, withTransaction } from 'leasehold'
import type pg from 'pg'

export const carts = queue('carts', { ordered: true, ring: true })
export const addItem = kind<{ cart: string; cents: number }>('add_item', { queue: 'carts', ordered: true })

export function cartWorker(leasehold: Leasehold, pool: pg.Pool, label: string): Worker {
  // One map per bucket, so that a bucket that moves is forgotten as a whole.
  const cache = new Map<number, Map<string, number>>()

  function cacheFor(cart: string): Map<string, number> {
    const owned = worker.owns('carts', cart)
    if (owned === undefined) return new Map() // not ours, or no longer: remember nothing
    const known = cache.get(owned.bucket) ?? new Map<string, number>()
    cache.set(owned.bucket, known)
    return known
  }

  async function load(cart: string): Promise<number> {
    const { rows } = await pool.query('select cents from cart where id = $1', [cart])
    return rows[0]?.cents ?? 0
  }

  const worker = leasehold.worker(
    [
      handle(addItem, async (job) => {
        const { cart, cents } = job.input
        const known = cacheFor(cart)
        const total = (known.get(cart) ?? (await load(cart))) + cents
        known.delete(cart) // until the commit is known
        await withTransaction(pool, async (tx) => {
          const upsert = 'insert into cart values ($1, $2) on conflict (id) do update set cents = excluded.cents'
          await tx.query(upsert, [cart, total])
          await job.complete(tx) // throws if another worker has the job by now, and nothing is written
        })
        known.set(cart, total)
      }),
    ],
    { label },
  )
  const forget = ({ buckets }: RingChange) => {
    for (const bucket of buckets) cache.delete(bucket)
  }
  worker.on('gained', forget)
  worker.on('lost', forget)
  return worker
}
