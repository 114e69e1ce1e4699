/** What a piece of work cost: time, processor time by process, log, heap-only updates. */
import { setTimeout } from 'node:timers/promises'
import type { Client } from 'pg'
import { processMicros, serverMicros } from '../processors.ts'
import type { BenchServer, Session } from '../server.ts'
import { UPDATES, WAL_BYTES, WAL_IMAGE_BYTES, WAL_POSITION } from './floor.sql.ts'

const STATISTICS_WITHIN_MS = 20_000

/** Processor times are null where the system has no /proc. */
export interface Usage {
  readonly seconds: number
  readonly nodeMicros: number
  /** Of the sessions that did the work. */
  readonly sessionMicros: number | null
  /** Of all other processes of the server: log writer, checkpointer, autovacuum. */
  readonly otherMicros: number | null
  readonly walBytes: number
  readonly walImageBytes: number | null
}

/** Starts from a checkpoint, so that pages written whole for the first time after one weigh alike in every measurement. */
export async function measure(
  server: BenchServer,
  sessions: readonly Session[],
  work: () => Promise<unknown>,
): Promise<Usage> {
  await server.admin.query('checkpoint')
  const from = await walPosition(server)
  const before = processorTimes(server, sessions)
  const began = performance.now()
  await work()
  const seconds = (performance.now() - began) / 1000
  const after = processorTimes(server, sessions)
  const to = await walPosition(server)
  return {
    seconds,
    nodeMicros: after.node - before.node,
    sessionMicros: less(after.sessions, before.sessions),
    otherMicros: atLeastZero(less(less(after.all, before.all), less(after.sessions, before.sessions))),
    walBytes: await scalar(server.admin, WAL_BYTES, [from.inserted, to.inserted]),
    walImageBytes: server.canReadWal ? await scalar(server.admin, WAL_IMAGE_BYTES, [from.inserted, to.flushed]) : null,
  }
}

/**
 * The share of heap-only updates of a table. Sessions report their counts late, the last ones when they end: call this
 * after they have, and it waits until the counts add up.
 */
export async function hotShare(db: Client, table: string, updates: number): Promise<number> {
  const deadline = performance.now() + STATISTICS_WITHIN_MS
  for (;;) {
    const { rows } = await db.query(UPDATES, [table])
    const all = Number(rows[0]?.n_tup_upd ?? 0)
    if (all > updates) throw new Error(`${table} was updated ${all} times, not ${updates}`)
    if (all === updates) return Number(rows[0].n_tup_hot_upd) / all
    if (performance.now() > deadline) throw new Error(`${table} shows ${all} of ${updates} updates`)
    await setTimeout(20)
  }
}

async function walPosition(server: BenchServer): Promise<{ inserted: string; flushed: string }> {
  const { rows } = await server.admin.query({ text: WAL_POSITION, rowMode: 'array' })
  return { inserted: rows[0]![0], flushed: rows[0]![1] }
}

async function scalar(db: Client, statement: string, values: unknown[]): Promise<number> {
  const { rows } = await db.query({ text: statement, values, rowMode: 'array' })
  return Number(rows[0]![0])
}

function less(later: number | null, earlier: number | null): number | null {
  return later === null || earlier === null ? null : later - earlier
}

/** Two sums of many small readings may differ by a rounding. */
function atLeastZero(value: number | null): number | null {
  return value === null ? null : Math.max(0, value)
}

function processorTimes(server: BenchServer, sessions: readonly Session[]) {
  const { user, system } = process.cpuUsage()
  const own = sessions.map(({ pid }) => processMicros(pid))
  const known = own.filter((micros) => micros !== null)
  return {
    node: user + system,
    sessions: known.length === own.length ? sum(known) : null,
    all: serverMicros(server.postmaster),
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
