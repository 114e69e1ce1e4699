/** The common part of every process of a run: its configuration, its witness file and its database. */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { Leasehold } from '../../../src/index.ts'
import { noteStalls, Witness } from '../../common/witness.ts'
import { plantStatements } from '../plants/in-process.ts'

export interface Orders {
  readonly name: string
  /** Of the database, through the faults. */
  readonly url: string
  /** Of the witness files. */
  readonly directory: string
  readonly plan: string
  /** A file that holds the moment from which the plan counts, once it has come. */
  readonly startFile: string
  /** Which of the starters. */
  readonly starter?: number
  readonly leaseMs: number
  readonly sweepMs: number
  readonly plant?: string
}

export const orders = JSON.parse(process.argv[2]!) as Orders
export const witness = new Witness(orders.directory, orders.name)
if (orders.plant !== undefined) plantStatements(orders.plant, witness)

export const pool = new pg.Pool({ connectionString: orders.url, max: 12, connectionTimeoutMillis: 10_000 })
// Lost on purpose. A query in flight still rejects.
pool.on('error', () => {})
pool.on('connect', (client) => client.on('error', () => {}))

export const leasehold = new Leasehold({ pool, log: ({ level, message }) => witness.write('log', { level, message }) })

/** Whether no process of the run has asked this before. */
export function isFirst(what: string): boolean {
  try {
    closeSync(openSync(join(orders.directory, `first-${Buffer.from(what).toString('hex')}`), 'wx'))
    return true
  } catch {
    return false
  }
}

export function nameOf(error: unknown): string {
  const { name, code } = (error ?? {}) as { name?: string; code?: string }
  return code ?? name ?? String(error)
}

export function print(event: string): void {
  process.stdout.write(`${JSON.stringify({ event })}\n`)
}

export function begin(): void {
  noteStalls(witness)
  process.on('message', () => {})
  // It ends with the process that started it, however that ends.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel!.unref()
  process.on('uncaughtException', (error) => {
    witness.write('uncaught', { message: String(error?.stack ?? error).slice(0, 2_000) })
    console.error(error)
    process.exit(1)
  })
  witness.write('ready', { pid: process.pid })
}
