/**
 * The same by hand, as it is often written: a table of members with heartbeats, a map in memory, and a worker that takes the rows of its
 * buckets. It has the same ring, but no lease, no fence and no order in the rows.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ringMap } from '../../src/ring/map.ts'
import { BY_HAND } from './scale.ts'
import type { Surroundings } from './worker.ts'

interface Row {
  readonly id: string
  readonly account: string
  readonly n: number
}

export async function runByHand({ name, pool, tell, work }: Surroundings): Promise<void> {
  const memory = new Map<string, number>()
  let mine: readonly number[] = []
  let isStopping = false
  process.on('SIGTERM', () => {
    isStopping = true
  })

  async function beat(): Promise<void> {
    const { rows } = await pool.query<{ worker: string; seat: number }>(
      `with alive as (select worker, seat from member where beat_at > clock_timestamp() - $2 * interval '1 ms' and worker <> $1),
        me as (
          insert into member values ($1, (
            select min(s) from generate_series(1, 100) s where s not in (select seat from member where worker <> $1)), clock_timestamp())
          on conflict (worker) do update set beat_at = clock_timestamp() returning worker, seat
        )
      select * from alive union all select * from me`,
      [name, BY_HAND.deadAfterMs],
    )
    const map = ringMap(
      'consistent',
      rows.map(({ seat }) => ({ number: seat, weight: 1 })),
    )
    const seat = rows.find(({ worker }) => worker === name)!.seat
    const before = mine
    mine = [...map.keys()].filter((bucket) => map[bucket] === seat)
    const gained = mine.filter((bucket) => !before.includes(bucket))
    const lost = before.filter((bucket) => !mine.includes(bucket))
    if (lost.length > 0) tell({ type: 'lost', buckets: lost })
    if (gained.length > 0) tell({ type: 'gained', buckets: gained })
  }

  async function enter({ id, account, n }: Row): Promise<void> {
    const { rows } = await pool.query('select clock_timestamp()::text as at')
    const known = memory.get(account)
    const last = 'select coalesce(max(n), 0) as n from entry where account = $1'
    const after = known ?? (await pool.query(last, [account])).rows[0].n
    await work()
    const sql = 'insert into entry (account, n, after, by_memory, worker, began_at) values ($1, $2, $3, $4, $5, $6)'
    await pool.query(sql, [account, n, after, known !== undefined, name, rows[0].at])
    await pool.query('update todo set done = true where id = $1', [id])
    memory.set(account, n)
  }

  async function beats(): Promise<void> {
    while (!isStopping) {
      await beat()
      await sleep(BY_HAND.beatMs)
    }
  }

  async function turns(): Promise<void> {
    while (!isStopping) {
      const { rows } = await pool.query<Row>(
        'select id, account, n from todo where not done and bucket = any ($1) order by id limit $2',
        [mine, BY_HAND.batch],
      )
      // One worker has one account, so this is in order: as long as all agree on who has which.
      const accounts = [...new Set(rows.map(({ account }) => account))]
      const enterAll = async (of: string) => {
        for (const row of rows) if (row.account === of) await enter(row)
      }
      await Promise.all(accounts.map(enterAll))
      if (rows.length === 0) await sleep(50)
    }
  }

  await pool.query(`delete from member where beat_at < clock_timestamp() - $1 * interval '1 ms'`, [BY_HAND.deadAfterMs])
  await beat()
  await Promise.all([beats(), turns()])
  await pool.query('delete from member where worker = $1', [name])
}
