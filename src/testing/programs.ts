/**
 * Programs that leave no process and no file behind however this process ends, `kill -9` included, so nothing here relies on
 * exit hooks. Two small shells live on pipes that only this process holds, and the end of a pipe is their signal:
 *
 *   cleaner     makes the one temporary directory and removes it at the end of its input. Every program run for that
 *               directory inherits the writing end (fd 3), so removal waits until the last of them is gone.
 *   supervisor  runs one program (initdb, postgres …) and shuts it down at the end of its own input.
 *
 * Both shells are detached, so Ctrl-C does not race the orderly shutdown, and in `/`, which any user may enter. Windows has no sh:
 * there it is a plain spawn with an exit hook, and a killed parent leaves the server behind.
 */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'

const WINDOWS = process.platform === 'win32'

export interface Program {
  name: string
  child: ChildProcess
  ended: Promise<number>
  recentLog(): string
}

/** A temporary directory and the programs that run for it. None outlives this process. */
export interface Home {
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

export async function openHome(parent: string): Promise<Home> {
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
export function hold(held: boolean, ...programs: Program[]): void {
  for (const { child } of programs)
    for (const handle of [child, child.stdin, child.stdout, child.stderr] as (Socket | null)[])
      held ? handle?.ref() : handle?.unref()
}

export async function success(program: Program): Promise<void> {
  if ((await program.ended) !== 0) throw failure(`${program.name} failed`, program)
}

export function failure(what: string, program: Program): Error {
  return new Error(`${what}. Its last output:\n${program.recentLog().trimEnd()}`)
}

/** Without what would change the server's locale, time zone or defaults. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG)/.test(name))
  return { ...Object.fromEntries(kept), LC_ALL: 'C', TZ: 'UTC' }
}
