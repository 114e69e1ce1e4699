/** What a claim costs its backend, one after the other in one warm session. Each is rolled back, so that the next finds the same. */
import pg from 'pg'
import type { Contender } from '../contenders/contender.ts'
import { processMicros } from '../processors.ts'
import type { ClaimCost, Commands } from './protocol.ts'

export async function claims(
  contender: Contender,
  { url, count, warmUp, limit, from = 'start' }: Parameters<Commands['claims']>[0],
): Promise<ClaimCost> {
  if (contender.claims === undefined) throw new Error('it cannot claim in a transaction of the caller')
  const db = new pg.Client(url)
  await db.connect()
  const { rows } = await db.query('select pg_backend_pid() as pid')
  const own = await contender.claims(url, db, from)
  const claim = async () => {
    await db.query('begin')
    const claimed = await own.claim(limit)
    await db.query('rollback')
    return claimed
  }
  for (let done = 0; done < warmUp; done++) await claim()
  const before = processMicros(rows[0].pid)
  let claimed = 0
  for (let done = 0; done < count; done++) claimed = await claim()
  const after = processMicros(rows[0].pid)
  await own.close()
  await db.end()
  return { claimed, micros: before === null || after === null ? null : (after - before) / count }
}
