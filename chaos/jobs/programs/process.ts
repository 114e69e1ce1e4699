/**
 * The common part of every process of a run: its configuration, its witness file, the kinds, and the library with or without
 * a planted bug.
 */
import pg from 'pg'
import * as library from '../../../src/index.ts'
import { randomFrom } from '../../../tools/seeded-random.ts'
import type { Orders as CommonOrders } from '../../common/drive.ts'
import { begin as beginProgram, nameOf } from '../../common/program.ts'
import { Witness } from '../../common/witness.ts'
import { plantInProcess } from '../plants/in-process.ts'
import type { Input, Run, Workload } from '../workload.ts'
import { WORKLOADS } from '../workloads/all.ts'

export interface Orders extends CommonOrders {
  /** Through the faults. */
  readonly url: string
  /** Through PgBouncer: nothing of a session lasts. */
  readonly pooled: boolean
  /** Which of the producers. */
  readonly producer?: number
}

export const orders = JSON.parse(process.argv[2]!) as Orders
export const witness = new Witness(orders.directory, orders.name)
if (orders.plant !== undefined) plantInProcess(orders.plant, orders.url, witness)
export const pool = new pg.Pool({
  connectionString: orders.url,
  max: 12,
  connectionTimeoutMillis: 10_000,
  idleTimeoutMillis: 1_000,
})
// Lost on purpose. A query in flight still rejects. The listener is attached before a client is handed out.
pool.on('error', () => {})
pool.on('connect', (client) => client.on('error', () => {}))

export const leasehold = new library.Leasehold({
  pool,
  ...(orders.pooled ? { prepare: false, listen: false } : {}),
  log: ({ level, message, jobId }) => witness.write('log', { level, message, job: jobId }),
})

export const KINDS = new Map(
  WORKLOADS.flatMap(({ kinds }) =>
    Object.entries(kinds).map(([name, options]) => [name, library.kind<Input>(name, options)] as const),
  ),
)
export const WORKLOAD_OF_KIND = new Map<string, Workload>(
  WORKLOADS.flatMap((workload) => Object.keys(workload.kinds).map((name) => [name, workload] as const)),
)

/** What a worker's job and one claimed by hand have in common. */
export interface Held {
  readonly id: string
  readonly kind: string
  readonly input: Input
  readonly claimId: string
  readonly generation: number
  readonly attempt: number
  readonly signal: AbortSignal
  readonly once: Run['once']
  complete(tx: pg.ClientBase, result?: unknown): Promise<void>
}

/** Runs the handler of a workload between two lines of the witness. */
export async function runHandler(job: Held): Promise<unknown> {
  const { id, kind, input, claimId, generation, attempt, signal } = job
  const about = { w: input.w, job: id, gen: generation }
  const note: Run['note'] = (e, details = {}) => witness.write(e, { ...about, ...details })
  note('started', { attempt, claim: claimId })
  signal.addEventListener('abort', () => note('aborted', { why: nameOf(signal.reason) }), { once: true })
  try {
    const result = await WORKLOAD_OF_KIND.get(kind)!.handle({
      input,
      id,
      generation,
      attempt,
      signal,
      once: job.once,
      pool,
      library,
      complete: (tx, result) => job.complete(tx, result),
      note,
      rest: (ms) => rest(ms, signal),
      luck: randomFrom(`${input.w} ${generation}`)(),
    })
    note('ended', { how: 'returned' })
    return result
  } catch (error) {
    note('ended', { how: nameOf(error), ...messageOf(error) })
    throw error
  }
}

function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    signal.addEventListener('abort', onAbort, { once: true })
  })
}

function messageOf(error: unknown): { message?: string } {
  const { name, message } = (error ?? {}) as { name?: string; message?: string }
  return name === undefined || ['Snooze', 'Fatal', 'Cancel'].includes(name)
    ? {}
    : { message: String(message).slice(0, 200) }
}

const MEGABYTE = 2 ** 20

function heapMb(): number {
  ;(globalThis as { gc?: () => void }).gc?.()
  return Math.round((process.memoryUsage().heapUsed / MEGABYTE) * 10) / 10
}

export function begin(): void {
  beginProgram(witness, () => ({ heapMb: heapMb() }))
}
