#!/usr/bin/env node
/** `leasehold`: finds the command, runs it, and turns what it throws into one line and an exit code. */
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { likely } from '../core/options.ts'
import { VERSION } from '../version.ts'
import { type Command, readCall } from './command.ts'
import { explain } from './connection.ts'
import { Failure, quoted } from './failure.ts'
import { GROUPS } from './groups.ts'
import { commandHelp, help } from './help.ts'
import { type Io, neutral, paintFor } from './terminal.ts'

const COMMANDS = new Map(GROUPS.flatMap(({ commands }) => commands).map((command) => [command.name, command]))

/** Returns the exit code: as the help lists them. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const paint = paintFor(io.stdout, io.env)
  const [first, ...rest] = argv
  try {
    if (first === undefined || ['--help', '-h', 'help'].includes(first)) {
      const command = first === 'help' && rest[0] !== undefined ? find(rest[0]) : undefined
      io.stdout.write(command === undefined ? help(paint) : commandHelp(command, paint))
      return first === undefined ? 2 : 0
    }
    if (first === '--version' || first === '-v') {
      io.stdout.write(`${VERSION}\n`)
      return 0
    }
    const command = find(first)
    const call = readCall(command, rest, io)
    if (!call.flag('help')) return (await command.run(call)) ?? 0
    io.stdout.write(commandHelp(command, paint))
    return 0
  } catch (error) {
    const line = explain(error)
    if (line === undefined) throw error
    io.stderr.write(`leasehold: ${neutral(line)}\n`)
    return error instanceof Failure ? error.exitCode : 2
  }
}

function find(name: string): Command {
  const command = COMMANDS.get(name)
  if (command !== undefined) return command
  if (name.startsWith('-')) throw new Failure('options follow the command: leasehold <command> [options]')
  throw new Failure(`there is no command ${quoted(name)}; ${likely(name, [...COMMANDS.keys()])}`)
}

function isMain(): boolean {
  const script = process.argv[1]
  return script !== undefined && realpathSync(script) === fileURLToPath(import.meta.url)
}

if (isMain()) {
  const ending = new AbortController()
  process.once('SIGINT', () => ending.abort())
  process.once('SIGTERM', () => ending.abort())
  // The reader of a pipe, such as head, may end first.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0)
    throw error
  })
  const { stdout, stderr, stdin, env } = process
  process.exitCode = await run(process.argv.slice(2), { stdout, stderr, stdin, env, signal: ending.signal })
}
