/** Deploy steps and processes: migrate, configure, work. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { SchemaError } from '../core/errors.ts'
import { connectionOf } from '../db/connection.ts'
import { CODE_LEVEL, checkSchema, migrationSql } from '../db/migrate.ts'
import type { Declaration } from '../jobs/configuration.ts'
import type { Leasehold } from '../leasehold.ts'
import type { Handler } from '../worker/handler.ts'
import type { Tally } from '../worker/outcome-events.ts'
import type { Worker } from '../worker/worker.ts'
import type { Call, Command } from './command.ts'
import { connect, misfit, reach } from './connection.ts'
import { Failure, quoted } from './failure.ts'
import { neutral } from './terminal.ts'

export const migrate: Command = {
  name: 'migrate',
  takes: '',
  help: "bring the schema to this version's level",
  count: [0, 0],
  options: {
    print: { help: 'print the SQL, for review or psql; needs no database' },
    check: { help: 'change nothing; exit code 1 if the schema is missing, too old or too new' },
  },
  async run(call) {
    const schema = call.text('schema') ?? 'leasehold'
    if (call.flag('print') && call.flag('check')) throw new Failure('write: leasehold migrate --print, or --check')
    if (call.flag('print')) {
      const sql = migrationSql({ schema })
      call.print({ schema, level: CODE_LEVEL, sql }, () => sql)
      return 0
    }
    const leasehold = connect(call.target, call.io.env)
    try {
      if (call.flag('check')) return await check(call, leasehold)
      const database = await reach(connectionOf('cli', leasehold))
      await leasehold.migrate()
      const answer = { schema, level: CODE_LEVEL, database }
      call.print(answer, () => `Schema ${schema} is at level ${CODE_LEVEL}, in database ${database}.\n`)
      return 0
    } finally {
      await leasehold.close()
    }
  },
}

async function check(call: Call, leasehold: Leasehold): Promise<number> {
  const connection = connectionOf('cli', leasehold)
  const { pool, schema } = connection
  const database = await reach(connection)
  try {
    await checkSchema(pool, { schema })
    const text = () => `Schema ${schema} serves this version, in database ${database}.\n`
    call.print({ schema, usable: true, database }, text)
    return 0
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    const message = misfit(error, database)
    call.print({ schema, usable: false, database, message }, () => `${neutral(message)}\n`)
    return 1
  }
}

/** A module of the user's: its default export, or a named one. */
async function load(path: string, name: string): Promise<Record<string, unknown>> {
  const file = resolve(path)
  if (!existsSync(file)) throw new Failure(`there is no module ${quoted(path)}; pass a path, such as ./dist/${name}.js`)
  try {
    return await import(pathToFileURL(file).href)
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    if ((error as { code?: string } | null)?.code === 'ERR_UNKNOWN_FILE_EXTENSION') {
      throw new Failure(
        `this Node cannot load ${quoted(path)}: compile it to JavaScript, or run the command with a loader, such as NODE_OPTIONS='--import tsx' npx leasehold …`,
      )
    }
    throw new Failure(`the module ${quoted(path)} cannot be loaded: ${reason}`)
  }
}

function isDeclaration(value: unknown): value is Declaration {
  const { name, maxAttempts, onDeadLetter } = (value ?? {}) as Record<string, unknown>
  return typeof name === 'string' && (typeof maxAttempts === 'number' || typeof onDeadLetter === 'string')
}

/** Of a handler or a workflow, its kind. */
function declarationOf(value: unknown): Declaration | undefined {
  if (isDeclaration(value)) return value
  const { kind } = (value ?? {}) as { kind?: unknown }
  return isDeclaration(kind) ? kind : undefined
}

export const configure: Command = {
  name: 'configure',
  takes: '<module>',
  help: 'store the kinds and queues that a module exports',
  count: [1, 1],
  options: {},
  async run(call) {
    const [path] = call.args as [string]
    const exported = Object.values(await load(path, 'jobs')).flatMap((value) =>
      Array.isArray(value) ? value : [value],
    )
    const declarations = [...new Set(exported.map(declarationOf))].filter((found) => found !== undefined)
    if (declarations.length === 0) {
      throw new Failure(`the module ${quoted(path)} exports no kind(), queue(), workflow() or handle()`)
    }
    return call.withDatabase(async ({ leasehold, name }) => {
      await leasehold.configure(declarations)
      const stored = declarations.map((declaration) => declaration.name)
      call.print({ stored, database: name }, () => `Stored in database ${name}: ${neutral(stored.join(', '))}.\n`)
      return 0
    })
  },
}

type Made = readonly Handler[] | Worker

export const work: Command = {
  name: 'work',
  takes: '<module>',
  help: 'run a worker until SIGTERM or SIGINT, with the handlers that a module exports',
  count: [1, 1],
  options: {
    concurrency: { value: 'n', help: 'jobs at a time; default: 10' },
    label: { value: 'text', help: 'the name of the worker; default: host:pid' },
    drain: { help: 'end when no job is left to claim' },
  },
  async run(call) {
    const [path] = call.args as [string]
    const module = await load(path, 'worker')
    const given = module.default ?? module.handlers
    return call.withDatabase(async ({ leasehold, name }) => {
      const made: Made = typeof given === 'function' ? await given(leasehold) : given
      const concurrency = call.integer('concurrency', 1, 10_000)
      const label = call.text('label')
      const options = {
        ...(concurrency === undefined ? {} : { concurrency }),
        ...(label === undefined ? {} : { label }),
      }
      if (!isWorker(made) && !(Array.isArray(made) && made.length > 0)) {
        throw new Failure(
          `the module ${quoted(path)} must export, as default or as \`handlers\`, a list of handle(…), or a function of a Leasehold that returns one`,
        )
      }
      if (isWorker(made)) refuseIgnored(call, path)
      if (call.flag('drain') && !isWorker(made)) {
        const tally = await leasehold.drain(made, options)
        call.print(tally, () => `Drained: ${tallyText(tally)}.\n`)
        return 0
      }
      const worker = isWorker(made) ? made : leasehold.worker(made, options)
      call.note(`worker on database ${name}`)
      await worker.run()
      return 0
    })
  },
}

/** A Worker that the module has made has options of its own, and ends when it is stopped. */
function refuseIgnored(call: Call, path: string): void {
  const given = Object.keys(work.options).filter((name) => call.flag(name) || call.text(name) !== undefined)
  if (given.length === 0) return
  const named = given.map((name) => `--${name}`).join(', ')
  throw new Failure(
    `${named} ${given.length === 1 ? 'needs' : 'need'} a list of handle(…), and the module ${quoted(path)} makes a Worker; return the list instead, or set concurrency and label where it makes the Worker`,
  )
}

/** Outcomes that did not occur are left out. */
function tallyText({ concurrentModifications: _, deadLetters, ...counts }: Tally): string {
  const all = Object.entries({ ...counts, 'dead letters': deadLetters }).filter(([, jobs]) => jobs > 0)
  return all.length === 0 ? 'no job was due' : all.map(([outcome, jobs]) => `${jobs} ${outcome}`).join(', ')
}

function isWorker(made: Made): made is Worker {
  return typeof (made as Worker | null)?.run === 'function'
}
