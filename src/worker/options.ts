import { hostname } from 'node:os'
import { checkInteger, checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { checkWeight } from '../ring/map.ts'
import { type Chore, checkChores } from '../runtime/chore.ts'

export interface WorkerOptions {
  /** Handlers that run at a time. Default: 10. */
  readonly concurrency?: number
  /** Jobs claimed ahead at most, while handlers are fast enough to use them up at once. Default: 2000. */
  readonly prefetch?: number
  /** Jobs are reclaimed when a worker stops renewing for this long. Default: 30s. */
  readonly lease?: Duration
  /** How long handlers may go on after SIGTERM, before they are aborted and their jobs released. Default: 25s. */
  readonly grace?: Duration
  /** How often an idle worker looks for work that it was not notified of. Default: 1s. */
  readonly poll?: Duration
  /** How often expired leases are looked for, by one worker of all. Default: 5s. */
  readonly sweep?: Duration
  /** Which signals make it stop. Default: SIGTERM and SIGINT; none in drain() and runOnce(). */
  readonly signals?: readonly NodeJS.Signals[]
  /** For people to know this worker by. Default: host:pid. */
  readonly label?: string
  /**
   * What else is to be done every so often, by one worker of all, such as the recovery of a statusTable. Not in drain() and
   * runOnce().
   */
  readonly chores?: readonly Chore[]
  /** Of queues on the ring: its share of the buckets, compared with other workers. Default: 1. */
  readonly weight?: number
  /** The seat on the ring that it takes, 1 to 1024, such as the number of a pod. Default: the first that is free. */
  readonly seat?: number
}

const KNOWN = [
  'concurrency',
  'prefetch',
  'lease',
  'grace',
  'poll',
  'sweep',
  'signals',
  'label',
  'chores',
  'weight',
  'seat',
] as const

export interface WorkerSettings {
  readonly concurrency: number
  readonly prefetch: number
  readonly leaseMs: number
  readonly graceMs: number
  readonly pollMs: number
  readonly sweepMs: number
  readonly signals: readonly NodeJS.Signals[]
  readonly label: string
  readonly chores: readonly Chore[]
  readonly weight: number
  readonly seat: number | undefined
}

/** `stays`: it runs until it is stopped. */
export function workerSettings(options: WorkerOptions = {}, stays: boolean): WorkerSettings {
  checkOptions('worker', options, KNOWN)
  const signals = options.signals ?? (stays ? ['SIGTERM', 'SIGINT'] : [])
  if (!Array.isArray(signals)) throw new InvalidOptionError('worker.signals', "it must be a list such as ['SIGTERM']")
  const chores = checkChores('worker.chores', options.chores ?? [])
  if (!stays && chores.length > 0) {
    throw new InvalidOptionError(
      'worker.chores',
      'drain() and runOnce() do jobs only; call run(pool) of a chore yourself',
    )
  }
  return {
    concurrency: checkInteger('worker.concurrency', options.concurrency ?? 10, 1, 100_000),
    prefetch: checkInteger('worker.prefetch', options.prefetch ?? 2_000, 0, 100_000),
    leaseMs: durationMs('worker.lease', options.lease ?? '30s', 1_000),
    graceMs: durationMs('worker.grace', options.grace ?? '25s'),
    pollMs: durationMs('worker.poll', options.poll ?? '1s', 10),
    sweepMs: durationMs('worker.sweep', options.sweep ?? '5s', 100),
    signals,
    label: checkText('worker.label', options.label ?? `${hostname()}:${process.pid}`.slice(-200), 200),
    chores,
    weight: checkWeight('worker.weight', options.weight ?? 1),
    seat: options.seat === undefined ? undefined : checkInteger('worker.seat', options.seat, 1, 1_024),
  }
}
