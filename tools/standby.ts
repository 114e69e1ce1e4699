// A hot standby of a server from tools/postgres.ts. The embedded packages have no pg_basebackup, so this file makes the
// base backup itself: it copies the data directory between the two calls of PostgreSQL's backup functions.
//
// WAL reaches the standby through a faulty proxy. While the proxy is frozen, the primary commits and acknowledges, and the
// standby receives nothing: that is the WAL tail which a failover loses.
import fs from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { type FaultyProxy, startFaultyProxy } from './faulty-proxy.ts'
import { type PostgresOptions, type PostgresServer, startPostgres } from './postgres.ts'

export interface Standby extends PostgresServer {
  /** Carries the WAL stream. */
  readonly replication: FaultyProxy
  /** Ends recovery. Resolves when the server accepts writes. */
  promote(): Promise<void>
}

/** Settings of a primary: no WAL is recycled before the standby has read it. */
export const PRIMARY = { wal_keep_size: '1GB' }

const PROMOTED_WITHIN_S = 120

/** Files that a server creates when it starts, or receives from its primary. */
const NOT_COPIED = /^(postmaster\.(pid|opts)|pg_(wal|replslot|dynshmem|notify|serial|snapshots|stat_tmp|subtrans)\/.*)$/

/** Version and settings must be those of the primary. */
export async function startStandby(primary: PostgresServer, options: PostgresOptions): Promise<Standby> {
  const replication = await startFaultyProxy({ host: '127.0.0.1', port: primary.port })
  try {
    const settings = {
      ...options.settings,
      primary_conninfo: `host=127.0.0.1 port=${replication.port} user=postgres`,
      wal_retrieve_retry_interval: '100ms',
    }
    const server = await startPostgres({ ...options, settings, fill: (directory) => copyData(primary, directory) })
    return Object.assign(server, {
      replication,
      promote: () => promote(server.url),
      stop: stopBoth(server.stop, replication),
    })
  } catch (error) {
    await replication.stop()
    throw error
  }
}

function stopBoth(stopServer: () => Promise<void>, replication: FaultyProxy): () => Promise<void> {
  return async () => {
    // The connection is reset first: the server would wait for a frozen one.
    await replication.stop()
    await stopServer()
  }
}

async function promote(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query('select pg_promote(true, $1) as done', [PROMOTED_WITHIN_S])
    if (!rows[0].done) throw new Error(`The standby was not promoted within ${PROMOTED_WITHIN_S} s`)
  } finally {
    await client.end()
  }
}

async function copyData({ url, dataDirectory }: PostgresServer, target: string): Promise<void> {
  // The backup ends with its session, so both calls share one.
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query("select current_setting('server_version_num')::int >= 150000 as renamed")
    const [start, stop] = rows[0].renamed
      ? ["pg_backup_start('standby', true)", 'pg_backup_stop(false)']
      : ["pg_start_backup('standby', true, false)", 'pg_stop_backup(false, false)']
    await client.query(`select ${start}`)
    copyTree(dataDirectory, target)
    const stopped = await client.query(`select labelfile, spcmapfile from ${stop}`)
    const { labelfile, spcmapfile } = stopped.rows[0]
    const owner = fs.statSync(dataDirectory)
    const write = (name: string, text: string) => {
      fs.writeFileSync(join(target, name), text, { mode: 0o600 })
      give(join(target, name), owner)
    }
    write('backup_label', labelfile)
    if (spcmapfile) write('tablespace_map', spcmapfile)
    write('standby.signal', '')
  } finally {
    await client.end()
  }
}

/** Copies a directory that a server writes to. Files may change, which the WAL repairs, and disappear. */
function copyTree(source: string, target: string): void {
  for (const entry of fs.readdirSync(source, { recursive: true, encoding: 'utf8' })) {
    if (NOT_COPIED.test(entry.replaceAll('\\', '/'))) continue
    const [from, to] = [join(source, entry), join(target, entry)]
    const stat = fs.statSync(from, { throwIfNoEntry: false })
    if (stat === undefined) continue
    if (stat.isDirectory()) fs.mkdirSync(to, { mode: stat.mode })
    else if (!copied(from, to)) continue
    give(to, stat)
  }
}

function copied(from: string, to: string): boolean {
  try {
    fs.copyFileSync(from, to)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return false
  }
}

/** When run by root, the servers belong to another user, and so must the copy. */
function give(path: string, { uid, gid }: { uid: number; gid: number }): void {
  if (process.getuid?.() === 0) fs.chownSync(path, uid, gid)
}
