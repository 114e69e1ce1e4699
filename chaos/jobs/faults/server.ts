/** Faults of the server, and of other users of the same database. */
import type pg from 'pg'
import type { FaultCard } from '../../common/deck.ts'
import { ROLE } from '../world.ts'
import type { Scene } from './scene.ts'

const LOCKED = ['job', 'claim', 'archive', 'job_attempt', 'dead_letter', 'idempotency_key'] as const
/** Producers use it at any moment; while workers restart, a short lock on another table would block no session. */
const BUSY = 'job'
const LOOK_EVERY_MS = 100
const TOO_MANY_CONNECTIONS = '53300'

/** Ends some sessions of the processes, in the middle of their work. */
export async function terminateBackends({ pick }: FaultCard, { world: { admin } }: Scene): Promise<boolean> {
  const { rows } = await admin.query(
    `select count(*) filter (where pg_terminate_backend(pid))::int as ended from (
       select pid from pg_stat_activity where usename = $1 and hashtext(pid::text) % 4 <= $2
     ) as chosen`,
    [ROLE, Math.floor(pick * 4)],
  )
  return rows[0].ended > 0
}

export async function crash(_: FaultCard, { world }: Scene): Promise<boolean> {
  await world.crash()
  return true
}

/** A standby is promoted that lacks the last commits. Then there is a new standby for the next time. */
export async function failOver({ forMs }: FaultCard, { world }: Scene): Promise<boolean> {
  const bit = await world.failOver(forMs)
  await world.makeStandby()
  return bit
}

/** An outsider locks a table, as a migration or a VACUUM FULL does. Bites when a session of the processes waits for it. */
export async function lockTable({ fault, pick, forMs }: FaultCard, { world, wait }: Scene): Promise<boolean> {
  const table = fault === 'lock table briefly' ? BUSY : LOCKED[Math.floor(pick * LOCKED.length)]!
  const client = await world.admin.connect()
  let blocked = 0
  try {
    await client.query('begin')
    await client.query(`lock table leasehold.${table} in access exclusive mode`)
    const until = Date.now() + forMs
    while (Date.now() < until) {
      await wait(Math.min(LOOK_EVERY_MS, until - Date.now()))
      // Not in this transaction, which would see the same activity each time.
      const { rows } = await world.admin.query(
        `select count(*)::int from pg_stat_activity where usename = $1 and wait_event_type = 'Lock'`,
        [ROLE],
      )
      blocked = Math.max(blocked, rows[0].count)
    }
  } finally {
    await rolledBack(client)
  }
  return blocked > 0
}

/** As after a failover to a server that may not write yet. Sessions that are open obey, too. */
export async function readOnly({ forMs }: FaultCard, { world: { admin }, wait }: Scene): Promise<boolean> {
  await admin.query('alter system set default_transaction_read_only = on')
  await admin.query('select pg_reload_conf()')
  try {
    await wait(forMs)
  } finally {
    await admin.query('alter system reset default_transaction_read_only')
    await admin.query('select pg_reload_conf()')
  }
  return true
}

/**
 * The server refuses every new connection of the processes, and those that they have are cut. A limit of the role: a server that is
 * full gives the same error, but a process that connects again may win the race for a place that the cut has freed.
 */
export async function exhaustConnections({ forMs }: FaultCard, { world, wait }: Scene): Promise<boolean> {
  const { admin } = world
  await admin.query(`alter role ${ROLE} connection limit 0`)
  try {
    world.proxy.cut()
    await wait(forMs)
    return await isRefused(world.client())
  } finally {
    await admin.query(`alter role ${ROLE} connection limit -1`)
  }
}

async function isRefused(client: pg.Client): Promise<boolean> {
  try {
    await client.connect()
  } catch (error) {
    return (error as { code?: string }).code === TOO_MANY_CONNECTIONS
  }
  await client.end()
  return false
}

/** A report that runs for long: nothing that died since can be cleaned up. */
export async function holdSnapshot({ forMs }: FaultCard, { world, wait }: Scene): Promise<boolean> {
  const client = await world.admin.connect()
  try {
    await client.query('begin isolation level repeatable read')
    const { rows } = await client.query('select count(*)::int from leasehold.jobs')
    await wait(forMs)
    return rows[0].count > 0
  } finally {
    await rolledBack(client)
  }
}

async function rolledBack(client: pg.PoolClient): Promise<void> {
  const lost = await client.query('rollback').then(
    () => undefined,
    (error: Error) => error,
  )
  client.release(lost)
}
