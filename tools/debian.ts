// Programs that npm does not have, from Debian packages that are unpacked to a cache and never installed: no root is needed,
// and the machine is not changed. An installed program, or one named by a variable, comes first.
//
// One detached shell fetches, unpacks and renames the result into its place. It lives on when this process is killed,
// finishes its work, and removes its directory: a cache is whole or absent, and nothing else remains.
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { basename, delimiter, dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { canWriteIn, ownCache } from './cache.ts'

export interface Wanted {
  /** The name in messages. */
  name: string
  /** An environment variable with the path of the file. If it is set, nothing else is tried. */
  variable: string
  /** The file's name. */
  file: string
  /** Where it may be, in the system or in packages unpacked to `root`. */
  folders(root: string): string[]
  packages: string[]
}

/** The machine has no such program, and it could not be fetched. The first line of the message is advice. */
export class ProgramMissingError extends Error {}

/** The path of the file, and the folder the packages were unpacked to if they had to be fetched. */
export async function findOrFetch(wanted: Wanted): Promise<{ path: string; root: string | undefined }> {
  const named = process.env[wanted.variable]
  if (named) {
    if (fs.existsSync(named)) return { path: named, root: undefined }
    throw new Error(`${wanted.variable} names ${named}, which does not exist.`)
  }
  const installed = fileIn('/', wanted)
  if (installed) return { path: installed, root: undefined }
  const root = await debianFiles(wanted.packages).catch((error: Error) => {
    const advice = `Install ${wanted.name}, or set ${wanted.variable} to the path of its ${wanted.file}`
    const what = `${wanted.name} is not installed and could not be fetched. ${advice}.`
    throw new ProgramMissingError(`${what}\n${error.message}`)
  })
  const path = fileIn(root, wanted)
  if (path) return { path, root }
  throw new Error(`None of the packages ${wanted.packages.join(', ')} has ${wanted.file} where it was looked for.`)
}

function fileIn(root: string, { file, folders }: Wanted): string | undefined {
  return folders(root)
    .map((folder) => join(folder, file))
    .find((path) => fs.existsSync(path))
}

/**
 * The environment in which a process sees another time of day: `'+1h'`, `'-30s'`. Its monotonic clock, and so its
 * timers, are not shifted. Each such process keeps two small files in /dev/shm until it exits; `kill -9` leaves them.
 */
export async function fakeTime(shift: string): Promise<Record<string, string>> {
  const { path } = await findOrFetch({
    name: 'libfaketime',
    variable: 'LEASEHOLD_FAKETIME',
    file: 'libfaketime.so.1',
    folders: (root) => librariesIn(root).map((folder) => join(folder, 'faketime')),
    packages: ['libfaketime'],
  })
  // A space ends a path in LD_PRELOAD, and nothing escapes it. The search path may hold spaces.
  const libraries = [dirname(path), process.env.LD_LIBRARY_PATH].filter(Boolean).join(':')
  const preload = { LD_PRELOAD: basename(path), LD_LIBRARY_PATH: libraries }
  return { ...preload, FAKETIME: shift, FAKETIME_DONT_FAKE_MONOTONIC: '1' }
}

/** The folders of shared libraries in a system, or in packages unpacked to `root`. */
export function librariesIn(root: string): string[] {
  const library = join(root, 'usr', 'lib')
  if (!fs.existsSync(library)) return []
  const folders = fs.readdirSync(library, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  return folders.map(({ name }) => join(library, name))
}

// $1 is the directory to work in, $2 where the result goes, "$@" after them the packages. The output goes to a file, as
// a pipe would break when our parent is killed.
// - The system's lists are tried first. They may be empty, or old enough to name files that are gone.
// - apt's hooks after an update are meant for the system's own directories, so they are cleared.
// - Versions are chosen as if nothing was installed: an installed version need not be on any server any more.
// - As root, apt would become the user _apt for downloads, who cannot write here.
// - Another process may have put the same result there first. Then this one is not needed.
const FETCHER = `
exec </dev/null 2>&1
work=$1 result=$2
shift 2
trap 'rm -rf -- "$work"' EXIT
umask 022
mkdir -p -- "$work/files" "$work/state/lists/partial" "$work/cache/archives/partial" && cd -- "$work" || exit
echo '#clear APT::Update;' >apt.conf
our_apt() {
  apt-get -c apt.conf -o Dir::Cache="$work/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root \\
    -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "$@"
}
with_our_lists() {
  our_apt -o Dir::State="$work/state" -o Dir::State::lists="$work/state/lists" "$@"
}
fetch() {
  our_apt download "$@" || { rm -f ./*.deb; with_our_lists update && with_our_lists download "$@"; }
}
unpack() {
  for package in ./*.deb; do dpkg-deb -x "$package" files || return; done
}
{ fetch "$@" && unpack && { mv -T -- files "$result" || [ -d "$result" ]; } } >log 2>&1
status=$?
[ "$status" = 0 ] || tail -n 30 log
exit "$status"`

/** The folder that the files of these packages are in, as they would be in `/`. */
export async function debianFiles(packages: string[]): Promise<string> {
  const missing = ['apt-get', 'dpkg-deb'].filter((program) => !onPath(program))
  if (missing.length > 0) throw new Error(`This is not a Debian or Ubuntu: ${missing.join(' and ')} not found.`)
  const system = fs.readFileSync('/etc/os-release', 'utf8') + process.arch
  const hash = createHash('sha256').update(JSON.stringify([...packages].sort()) + system)
  const name = `debian-${hash.digest('hex').slice(0, 16)}`

  const shared = fileURLToPath(new URL('../node_modules/.cache/leasehold', import.meta.url))
  if (fs.existsSync(join(shared, name))) return join(shared, name)
  const cache = canWriteIn(shared) ? shared : ownCache()
  const result = join(cache, name)
  if (fs.existsSync(result)) return result

  const work = `${result}-${randomBytes(6).toString('hex')}`
  const child = spawn('/bin/sh', ['-c', FETCHER, 'fetcher', work, result, ...packages], {
    detached: true, // Ctrl-C must not reach it.
    cwd: '/',
    env: { ...process.env, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [log, [status]] = await Promise.all([text(child.stdout!), once(child, 'close')])
  if (status !== 0) throw new Error(`Debian's ${packages.join(', ')} could not be fetched:\n${log.trimEnd()}`)
  return result
}

function onPath(program: string): boolean {
  return searchPath().some((folder) => fs.existsSync(join(folder, program)))
}

export function searchPath(): string[] {
  return (process.env.PATH ?? '').split(delimiter).filter(Boolean)
}
