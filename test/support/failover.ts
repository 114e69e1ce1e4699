// Databases whose last commits are lost after the client has received their acknowledgement, in the two ways in which
// PostgreSQL loses them: a standby is promoted that has not received them, and a server that commits asynchronously
// crashes before it writes them.
//
// WAL is lost from some point on, never from the middle. So failOver() commits one marker before that point and one after
// it: when the first is there and the second is not, everything that was committed after the second is lost as well.
import assert from 'node:assert/strict'
import pg from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { memoryDirectory } from '../../tools/memory-directory.ts'
import { type PostgresOptions, type PostgresVersion, startPostgres } from '../../tools/postgres.ts'
import { PRIMARY, startStandby } from '../../tools/standby.ts'
import { until } from './until.ts'

export interface FailingDatabase {
  /** Reaches the server before the failover, and its successor afterwards. */
  readonly url: string
  readonly pool: pg.Pool
  /**
   * Runs `keep`, whose commits survive, then `lose`, whose commits are acknowledged and lost, and fails over. When a crash
   * lost nothing, it deletes all jobs and starts again. To be called once.
   */
  failOver<Kept, Lost>(
    keep: () => Promise<Kept>,
    lose: (kept: Kept) => Promise<Lost>,
  ): Promise<{ kept: Kept; lost: Lost }>
  stop(): Promise<void>
}

export interface KindOfFailover {
  /** Completes the sentence `… after`. */
  readonly event: string
  start(): Promise<FailingDatabase>
}

export const FAILOVERS: readonly KindOfFailover[] = [
  { event: 'a standby is promoted', start: withStandby },
  { event: 'a crash loses asynchronous commits', start: withoutStandby },
]

/** Another process may flush the WAL at the wrong moment, so a crash may lose nothing. Several in a row would be a bug. */
const CRASHES = 8

/** Commits survive a crash of the server, but not one of the machine. */
const BASE = { fsync: 'off' }

/**
 * Asynchronous commits stay in memory: there is room for them, and nothing but the WAL writer has a reason to write them.
 */
const ASYNCHRONOUS = {
  synchronous_commit: 'off',
  wal_buffers: '64MB',
  wal_writer_delay: '10s',
  checkpoint_timeout: '1h',
  bgwriter_lru_maxpages: '0',
  autovacuum: 'off',
}

async function withStandby(): Promise<FailingDatabase> {
  const options = await optionsWith({ ...BASE, ...PRIMARY })
  const primary = await startPostgres(options)
  // The proxy reads its target at each connection, so changing the port moves the address to the new primary.
  const target = { host: '127.0.0.1', port: primary.port }
  const address = await startFaultyProxy(target)
  const url = address.url(primary.url)
  const pool = await migratedPool(url)
  const standby = await startStandby(primary, options)
  const replica = quietPool(standby.url)

  return {
    url,
    pool,
    failOver: async (keep, lose) => {
      const kept = await keep()
      await mark(pool, 1, 'kept')
      await until('the standby has replayed the WAL', async () => (await marks(replica, 1)).length > 0)
      standby.replication.freeze()
      await mark(pool, 1, 'lost')
      const lost = await lose(kept)
      await primary.crash()
      await standby.promote()
      target.port = standby.port
      await connectionsEnd(pool)
      assert.deepEqual(await marks(pool, 1), ['kept'])
      return { kept, lost }
    },
    stop: async () => {
      await Promise.all([pool.end(), replica.end()])
      await address.stop()
      await standby.stop()
      await primary.stop()
    },
  }
}

async function withoutStandby(): Promise<FailingDatabase> {
  const server = await startPostgres(await optionsWith({ ...BASE, ...ASYNCHRONOUS }))
  const { url } = server
  const pool = await migratedPool(url)

  return {
    url,
    pool,
    failOver: async (keep, lose) => {
      for (let crash = 1; crash <= CRASHES; crash++) {
        const kept = await keep()
        await mark(pool, crash, 'kept')
        // PostgreSQL 14 wakes the WAL writer for every full page, so it is stopped, and killed before it can go on.
        const writer = await walWriter(pool)
        process.kill(writer, 'SIGSTOP')
        await mark(pool, crash, 'lost')
        const lost = await lose(kept)
        const restarted = server.restart('immediate')
        process.kill(writer, 'SIGKILL')
        await restarted
        await connectionsEnd(pool)
        const found = await marks(pool, crash)
        assert.equal(found[0], 'kept')
        if (found.length === 1) return { kept, lost }
        await pool.query('delete from leasehold.job')
      }
      throw new Error(`none of ${CRASHES} crashes lost a commit`)
    },
    stop: async () => {
      await pool.end()
      await server.stop()
    },
  }
}

/**
 * PostgreSQL logs a sequence 32 values ahead. This uses them up, so that the next id takes a WAL record, which can be lost.
 */
export async function useUpLoggedIds({ pool }: Pick<FailingDatabase, 'pool'>): Promise<void> {
  await until('the next id has not been logged', async () => {
    const { rows } = await pool.query('select log_cnt::int as logged from leasehold.job_id')
    await pool.query("select nextval('leasehold.job_id') from generate_series(1, $1)", [rows[0].logged])
    return rows[0].logged === 0
  })
}

/** The version that the test runner was asked for. */
async function optionsWith(settings: Record<string, string>): Promise<PostgresOptions> {
  const runner = quietPool(process.env.LEASEHOLD_TEST_URL!)
  const { rows } = await runner.query("select current_setting('server_version_num')::int / 10000 as version")
  await runner.end()
  const within = memoryDirectory()
  return { version: rows[0].version as PostgresVersion, settings, ...(within === undefined ? {} : { within }) }
}

async function migratedPool(url: string): Promise<pg.Pool> {
  const pool = quietPool(url)
  await migrate(pool)
  await pool.query('create table marker (failover int, fate text, primary key (failover, fate))')
  return pool
}

/** These tests lose connections on purpose. A query that was running still rejects. */
function quietPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', () => {})
  return pool
}

/** The marker of the kept part is flushed, and every earlier commit with it. */
async function mark(pool: pg.Pool, failover: number, fate: 'kept' | 'lost'): Promise<void> {
  const flush = fate === 'kept' ? 'set local synchronous_commit = on;' : ''
  await pool.query(`begin; ${flush} insert into marker values (${failover}, '${fate}'); commit`)
}

async function marks(pool: pg.Pool, failover: number): Promise<string[]> {
  const { rows } = await pool.query('select fate from marker where failover = $1 order by fate', [failover])
  return rows.map(({ fate }) => fate)
}

async function walWriter(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query("select pid from pg_stat_activity where backend_type = 'walwriter'")
  return rows[0].pid
}

/** The pool opens new ones from now on. */
async function connectionsEnd(pool: pg.Pool): Promise<void> {
  await until('the old connections have ended', () => pool.totalCount === 0)
}
