// Debian's nats-server on loopback, alone or as a cluster, for tests. As in pgbouncer.ts, a shell on a pipe that only this process
// holds ends a server however this process ends.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { freePort } from '../src/testing/free-port.ts'
import { findOrFetch, searchPath } from './debian.ts'

export interface NatsServer {
  readonly url: string
  readonly name: string
  /** `kill -9`, as a crash; its directory stays. Resolves when it has ended. */
  kill(): Promise<void>
  /** At the same port, with the same directory. Resolves when it is ready. */
  start(): Promise<void>
}

export interface Nats {
  readonly servers: readonly NatsServer[]
  /** Of all servers. */
  readonly urls: string[]
  stop(): Promise<void>
}

export async function findNats(): Promise<string> {
  const { path } = await findOrFetch({
    name: 'nats-server',
    variable: 'LEASEHOLD_NATS_SERVER',
    file: 'nats-server',
    folders: (root) => [join(root, 'usr', 'sbin'), join(root, 'usr', 'bin'), ...searchPath()],
    packages: ['nats-server'],
  })
  return path
}

export interface NatsOptions {
  /** 1 or 3. */
  readonly size?: number
  /** Clients must have them. */
  readonly login?: { readonly user: string; readonly pass: string }
  /** The text of a configuration file. */
  readonly config?: string
}

export async function startNats({ size = 1, login, config }: NatsOptions = {}): Promise<Nats> {
  const program = await findNats()
  const home = fs.mkdtempSync(join(tmpdir(), 'leasehold-nats-'))
  const ports = await distinctPorts(2 * size)
  const file = join(home, 'nats.conf')
  if (config !== undefined) fs.writeFileSync(file, config)
  const [own, routes] = [ports.slice(0, size), ports.slice(size)]
  const servers = own.map((port, index) => {
    const directory = join(home, String(index))
    const name = `n${index}`
    const cluster = [
      ...['--cluster_name', 'leasehold', '--cluster', `nats://127.0.0.1:${routes[index]}`],
      ...['--routes', routes.map((each) => `nats://127.0.0.1:${each}`).join(',')],
    ]
    const args = ['-a', '127.0.0.1', '-p', String(port), '-n', name, '-js', '-sd', directory]
    const auth = login === undefined ? [] : ['--user', login.user, '--pass', login.pass]
    const more = [...auth, ...(config === undefined ? [] : ['-c', file]), ...(size > 1 ? cluster : [])]
    return new Server(program, [...args, ...more], name, `nats://127.0.0.1:${port}`)
  })
  const stop = async () => {
    await Promise.all(servers.map((server) => server.kill()))
    fs.rmSync(home, { recursive: true, force: true })
  }
  try {
    await Promise.all(servers.map((server) => server.start()))
  } catch (error) {
    await stop()
    throw error
  }
  return { servers, urls: servers.map(({ url }) => url), stop }
}

async function distinctPorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await freePort())
  return [...ports]
}

// $1 is the program, the rest its arguments. The watcher reads fd 4, as a shell gives background jobs an empty fd 0.
const SUPERVISOR = `
trap '' PIPE
exec 4<&0 </dev/null
"$@" 4<&- 2>&1 &
program=$!
{ read -r _ <&4; kill -KILL "$program"; } >/dev/null 2>&1 &
watcher=$!
wait "$program"; kill "$watcher" 2>/dev/null`

class Server implements NatsServer {
  readonly url: string
  readonly name: string
  readonly #command: readonly string[]
  #child: ChildProcess | undefined

  constructor(program: string, args: readonly string[], name: string, url: string) {
    this.#command = [program, ...args]
    this.name = name
    this.url = url
  }

  async start(): Promise<void> {
    const child = spawn('/bin/sh', ['-c', SUPERVISOR, 'supervisor', ...this.#command], {
      detached: true, // Ctrl-C must not race the shutdown.
      cwd: '/',
      env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    this.#child = child
    let log = ''
    await new Promise<void>((resolve, reject) => {
      child.stdout!.setEncoding('utf8').on('data', (text: string) => {
        log = (log + text).slice(-8_000)
        if (log.includes('Server is ready')) resolve()
      })
      child.once('close', () => reject(new Error(`nats-server ended. Its last output:\n${log.trimEnd()}`)))
    })
    for (const handle of [child, child.stdin, child.stdout] as (Socket | null)[]) handle?.unref()
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null) return
    for (const handle of [child, child.stdin, child.stdout] as (Socket | null)[]) handle?.ref()
    const ended = once(child, 'close')
    child.stdin!.destroy()
    await ended
  }
}

/** A connection that never gives up, unless told otherwise. */
export function connectTo(urls: string[], options: Parameters<typeof connect>[0] = {}): Promise<NatsConnection> {
  return connect({ servers: urls, maxReconnectAttempts: -1, reconnectTimeWait: 50, ...options })
}
