/** What a command is, and how its arguments are read. */
import { parseArgs } from 'node:util'
import { type Duration, durationMs } from '../core/duration.ts'
import { likely } from '../core/options.ts'
import { type Database, open } from './connection.ts'
import { Failure, quoted } from './failure.ts'
import { type Io, neutral, neutralJson, type Paint, paintFor } from './terminal.ts'

export interface Option {
  /** The name of its value in the help. Without it, a flag. */
  readonly value?: string
  readonly help: string
}

export interface Command {
  readonly name: string
  /** Such as `<id> …`. */
  readonly takes: string
  readonly help: string
  /** How many positional arguments, from and to. */
  readonly count: readonly [number, number]
  readonly options: Readonly<Record<string, Option>>
  /** Returns the exit code. Nothing: 0. */
  run(call: Call): Promise<number | undefined>
}

export const SHARED: Readonly<Record<string, Option>> = {
  url: { value: 'url', help: 'the database; default: LEASEHOLD_URL or DATABASE_URL' },
  schema: { value: 'name', help: 'where the tables live; default: leasehold' },
  json: { help: 'print JSON' },
  help: { help: 'print help' },
}

/** One call of a command. */
export class Call {
  readonly io: Io
  readonly args: readonly string[]
  readonly paint: Paint
  readonly #values: Readonly<Record<string, string | boolean | undefined>>

  constructor(io: Io, args: readonly string[], values: Readonly<Record<string, string | boolean | undefined>>) {
    this.io = io
    this.args = args
    this.#values = values
    this.paint = paintFor(io.stdout, io.env)
  }

  flag(name: string): boolean {
    return this.#values[name] === true
  }

  text(name: string): string | undefined {
    const value = this.#values[name]
    return typeof value === 'string' ? value : undefined
  }

  integer(name: string, from: number, to: number): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= from && value <= to) return value
    throw new Failure(`--${name} must be a whole number from ${from} to ${to}, not ${quoted(text)}`)
  }

  milliseconds(name: string): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    try {
      return durationMs(`--${name}`, text as Duration)
    } catch {
      throw new Failure(`--${name} must be a duration such as 30s, 5m, 2h or 7d, not ${quoted(text)}`)
    }
  }

  get json(): boolean {
    return this.flag('json')
  }

  get target() {
    return { url: this.text('url'), schema: this.text('schema') }
  }

  /** Opens the database for the time of the call. */
  async withDatabase<Result>(use: (database: Database) => Promise<Result>): Promise<Result> {
    const database = await open(this.target, this.io.env)
    try {
      return await use(database)
    } finally {
      await database.close()
    }
  }

  /** As JSON, or as text for people. */
  print(value: unknown, text: () => string): void {
    this.io.stdout.write(this.json ? `${neutralJson(value, 2)}\n` : text())
  }

  /** For messages that are no part of the answer. */
  note(text: string): void {
    this.io.stderr.write(`${neutral(text)}\n`)
  }

  /** Job ids, as `ls` prints them. */
  ids(): string[] {
    return [...new Set(this.args.map(checkedId))]
  }

  /** The job id that is the argument at this place. */
  idAt(place: number): string {
    return checkedId(this.args[place]!)
  }

  id(name: string): string | undefined {
    const text = this.text(name)
    return text === undefined ? undefined : checkedId(text)
  }

  /** What is hard to undo is done only with --yes, and names its database. */
  confirm(what: string, database: Database): void {
    const whole = `${what} in database ${database.name}`
    if (!this.flag('yes')) throw new Failure(`this would ${whole}; repeat it with --yes`)
    this.note(whole)
  }
}

function checkedId(id: string): string {
  if (/^[1-9]\d{0,18}$/.test(id) && BigInt(id) < 2n ** 63n) return id
  throw new Failure(`${quoted(id)} is not a job id; \`leasehold ls\` lists them`)
}

/** The name of the command is taken off already. */
export function readCall(command: Command, argv: readonly string[], io: Io): Call {
  if (argv.some((argument) => argument.includes('\0'))) throw new Failure('an argument holds a NUL')
  const known = { ...command.options, ...SHARED }
  const options = Object.fromEntries(
    Object.entries(known).map(([name, { value }]) => [
      name,
      { type: value === undefined ? ('boolean' as const) : ('string' as const) },
    ]),
  )
  let parsed: ReturnType<typeof parseArgs>
  try {
    parsed = parseArgs({ args: [...argv], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new Failure(explainArguments(error, argv, Object.keys(known), command.name))
  }
  const values = parsed.values as Record<string, string | boolean | undefined>
  const call = new Call(io, parsed.positionals, values)
  const [from, to] = command.count
  const given = parsed.positionals.length
  if (!call.flag('help') && (given < from || given > to)) {
    throw new Failure(`write: leasehold ${command.name} ${command.takes}`.trimEnd())
  }
  return call
}

function explainArguments(error: unknown, argv: readonly string[], known: readonly string[], name: string): string {
  const unknown = argv
    .map((argument) => /^--([^=]+)/.exec(argument)?.[1])
    .find((option) => option !== undefined && !known.includes(option))
  const flags = known.map((option) => `--${option}`)
  if (unknown !== undefined) {
    const given = `--${unknown}`
    return `there is no option ${quoted(given)} of ${name}; ${likely(given, flags)}`
  }
  return `${(error as Error).message.split(/\.\s/)[0]}; \`leasehold ${name} --help\` lists the options`
}
