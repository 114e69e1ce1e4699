// Debian's PgBouncer in front of a PostgreSQL, for tests through a pool of server connections.
// As in postgres.ts, a shell on a pipe that only this process holds ends the program however this process ends, and
// removes its directory. One shell is enough here: PgBouncer has no children and nothing to save, so it is killed.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from '../src/testing/free-port.ts'
import { findOrFetch, librariesIn, searchPath } from './debian.ts'

export interface PgBouncerOptions {
  /** Of a database of the server. Every client of PgBouncer becomes the user of this URL. */
  url: string
  /** Server connections for each database. */
  poolSize?: number
  mode?: 'transaction' | 'session' | 'statement'
  /** Default: a free one. */
  port?: number
}

export interface PgBouncer {
  /** The same database through PgBouncer. The console is the database `pgbouncer`. */
  url: string
  pid: number
  /** Resolves with its last output when it has ended, one way or the other. */
  ended: Promise<string>
  /** May be called again. */
  stop(): Promise<void>
}

export async function startPgBouncer(options: PgBouncerOptions): Promise<PgBouncer> {
  const program = await findPgBouncer()
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort())
    const bouncer = supervise(program, configuration(options, port))
    const through = new URL(options.url)
    through.hostname = '127.0.0.1'
    through.port = String(port)
    try {
      const pid = await bouncer.up
      await connectOnce(through.href)
      bouncer.letProcessEnd()
      return { url: through.href, pid, ended: bouncer.ended, stop: bouncer.stop }
    } catch (error) {
      const log = bouncer.log().trimEnd()
      await bouncer.stop()
      // Another process can take the port between our check and PgBouncer's bind.
      if (log.includes('ddress already in use') && attempt < 5) continue
      throw new Error(`PgBouncer did not start: ${(error as Error).message}. Its last output:\n${log}`)
    }
  }
}

interface Program {
  path: string
  libraries: string[]
}

export async function findPgBouncer(): Promise<Program> {
  const { path, root } = await findOrFetch({
    name: 'PgBouncer',
    variable: 'LEASEHOLD_PGBOUNCER',
    file: 'pgbouncer',
    folders: (root) => [join(root, 'usr', 'sbin'), ...searchPath()],
    // The libraries that a small Debian lacks; the others are there because apt itself needs them.
    packages: ['pgbouncer', 'libevent-2.1-7', 'libc-ares2', 'libssl3'],
  })
  return { path, libraries: root === undefined ? [] : librariesIn(root) }
}

/** As root, PgBouncer switches to the user `nobody` after it has read files that only root may: it refuses to be root. */
function configuration({ url, poolSize = 3, mode = 'transaction' }: PgBouncerOptions, port: number): string {
  const { hostname, port: serverPort, username, password } = new URL(url)
  const server = {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: serverPort || '5432',
    user: decodeURIComponent(username) || 'postgres',
    ...(password && { password: decodeURIComponent(password) }),
  }
  const quoted = Object.entries(server).map(([name, value]) => `${name}='${value.replaceAll("'", "''")}'`)
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: mode,
    default_pool_size: poolSize,
    max_client_conn: 500,
    server_login_retry: 1, // Not 15 s: a test waits for the server's return.
    ...(process.getuid?.() === 0 && { user: 'nobody' }),
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
  return ['[databases]', `* = ${quoted.join(' ')}`, '[pgbouncer]', ...lines].join('\n')
}

// $1 is the directory, $2 the configuration, $3 where libraries are, $4 the program. Writing to a parent that is gone
// must not kill the shell. The watcher reads fd 4, as a shell gives background jobs an empty fd 0.
const SUPERVISOR = `
trap '' PIPE
exec 4<&0 </dev/null
umask 077
mkdir -- "$1" && printf '%s\\n' "$2" >"$1/pgbouncer.ini" && {
  LD_LIBRARY_PATH=$3 "$4" "$1/pgbouncer.ini" 4<&- &
  program=$!
  { read -r _ <&4; kill -KILL "$program"; } >/dev/null 2>&1 &
  watcher=$!
  wait "$program"; kill "$watcher" 2>/dev/null
} 2>&1
rm -rf -- "$1"`

function supervise({ path, libraries }: Program, ini: string) {
  const directory = join(tmpdir(), `leasehold-pgbouncer-${randomBytes(6).toString('hex')}`)
  const searched = [...libraries, process.env.LD_LIBRARY_PATH].filter(Boolean).join(':')
  const child = spawn('/bin/sh', ['-c', SUPERVISOR, 'supervisor', directory, ini, searched, path], {
    detached: true, // Ctrl-C must not race the shutdown.
    cwd: '/',
    env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  let log = ''
  const ended = once(child, 'close')
  const up = new Promise<number>((resolve, reject) => {
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-8000)
      const pid = /\[(\d+)\] LOG process up/.exec(log)?.[1]
      if (pid) resolve(Number(pid))
    })
    ended.then(() => reject(new Error('it ended')), reject)
  })
  const stop = async () => {
    hold(child, true)
    child.stdin!.destroy()
    await ended
  }
  return { up, ended: ended.then(() => log.trimEnd()), stop, log: () => log, letProcessEnd: () => hold(child, false) }
}

/** Whether the event loop stays alive for the program: a script that forgets to stop it still ends. */
function hold(child: ChildProcess, held: boolean): void {
  for (const handle of [child, child.stdin, child.stdout] as (Socket | null)[]) held ? handle?.ref() : handle?.unref()
}

/** Its port is open once it is up; this shows that the server behind it is reachable, too. */
async function connectOnce(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 60_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
  } finally {
    await client.end()
  }
}
