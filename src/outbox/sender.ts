/** Sends the batches of one destination: loads the events, cuts the batch to what the transport takes, and settles each job. */
import { backoffMs } from '../core/backoff.ts'
import { Fatal, RetryAfter, Snooze } from '../core/steering.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import { type Handler, handleBatch, inRuns } from '../worker/handler.ts'
import type { BatchJob } from '../worker/job.ts'
import type { EventReference } from './destination.ts'
import { LOAD_EVENTS } from './outbox.sql.ts'
import type { Delivery } from './relay.ts'
import { DestinationUnavailable, type OutgoingEvent, type SendResult } from './transport.ts'

/** Of the data that is loaded at once. */
const LOADED_BYTES = 2 ** 24
/** For so long a batch waits here for a destination that is away. Then its jobs go back, since another process may reach it. */
const PATIENCE_MS = 30_000
/** What a call has not begun to send by then goes back: the timeout of the kind must not spend its attempt. */
const CALL_MS = 300_000
const AWAY_BACKOFF = { firstMs: 100, maxMs: 5_000 }

type SendJob = BatchJob<EventReference>

interface Placed {
  readonly job: SendJob
  /** In the call. */
  readonly place: number
}

interface Outgoing extends Placed {
  readonly event: OutgoingEvent
  readonly bytes: number
}

/** One call of the batch handler. */
interface Call {
  readonly signal: AbortSignal
  readonly began: number
  /** Since when the destination was away, in this call. */
  awaySince: number | undefined
  /** Keys of which an event was not sent, and its place: none of those behind it is sent in this call. */
  readonly stopped: Map<string | null, number>
}

export class Sender {
  readonly handler: Handler
  readonly #connection: Connection
  readonly #delivery: Delivery
  #isAway = false

  constructor(connection: Connection, delivery: Delivery) {
    this.#connection = connection
    this.#delivery = delivery
    const { destination, transport, size, concurrency } = delivery
    const send = (jobs: readonly SendJob[], signal: AbortSignal) => this.#deliver(jobs, signal)
    const handler = handleBatch(destination.kind, send, { size, concurrency })
    this.handler = transport.takesRuns === true ? inRuns(handler) : handler
  }

  async #deliver(jobs: readonly SendJob[], signal: AbortSignal): Promise<void> {
    const call: Call = { signal, began: monotonicMs(), awaySince: undefined, stopped: new Map() }
    for (let from = 0; from < jobs.length; ) {
      const events = await this.#load(jobs.slice(from))
      const batches = this.#cut(jobs, from, events, call)
      from += events.length
      // Those behind have waited for the first: some may be cancelled, or their lease lost. A signal costs more than the rest of
      // what is done here for an event, so the first ones are not asked.
      for (const [nth, batch] of batches.entries()) {
        await this.#send(nth === 0 ? batch : batch.filter((one) => mayGoOn(one, call)), call)
      }
    }
  }

  /** Of the first ones: as many as may be loaded at once. Undefined: there is no such event. */
  async #load(jobs: readonly SendJob[]): Promise<(OutgoingEvent | undefined)[]> {
    const rows = await this.#connection.lane.run<Column>(LOAD_EVENTS, [
      jobs.map(({ input }) => input.id),
      jobs.map(({ input }) => input.at),
      LOADED_BYTES,
    ])
    return rows.map((row, place) => (row.source === null ? undefined : eventOf(row, jobs[place]!)))
  }

  /** Settles what cannot be sent, and cuts the rest into what the transport takes at once. */
  #cut(
    jobs: readonly SendJob[],
    from: number,
    events: readonly (OutgoingEvent | undefined)[],
    call: Call,
  ): Outgoing[][] {
    const { transport, size } = this.#delivery
    const { batchBytes, eventBytes } = transport.limits
    const batches: Outgoing[][] = []
    let room = 0
    for (const [nth, event] of events.entries()) {
      const place = from + nth
      const job = jobs[place]!
      const placed = { job, place }
      if (isStopped(placed, call)) continue
      if (event === undefined) {
        stop(placed, new Fatal(`event ${job.input.id} is not in the database; it is past its retention`), call)
        continue
      }
      const bytes = transport.sizeOf(event)
      if (bytes > eventBytes) {
        stop(placed, new Fatal(`the event has ${bytes} bytes, and ${transport.name} takes at most ${eventBytes}`), call)
        continue
      }
      if (batches.length === 0 || bytes > room || batches.at(-1)!.length === size) {
        batches.push([])
        room = batchBytes
      }
      room -= bytes
      batches.at(-1)!.push({ job, place, event, bytes })
    }
    return batches
  }

  async #send(batch: readonly Outgoing[], call: Call): Promise<void> {
    const { signal } = call
    for (let [failures, sendable] = [1, batch]; sendable.length > 0; failures++) {
      if (monotonicMs() - call.began > CALL_MS) return snooze(sendable, 0, call)
      try {
        settle(sendable, await this.#ask(sendable, signal), call)
        call.awaySince = undefined
        this.#isBack()
        return
      } catch (error) {
        // Everything is released, since it is not the events' fault.
        if (signal.aborted) throw signal.reason
        if (!(error instanceof DestinationUnavailable)) return this.#oneByOne(sendable, error, call)
        this.#wentAway(error)
        call.awaySince ??= monotonicMs()
        const delayMs = backoffMs(failures, AWAY_BACKOFF)
        if (monotonicMs() - call.awaySince + delayMs > PATIENCE_MS) return snooze(sendable, AWAY_BACKOFF.maxMs, call)
        await sleep(delayMs, signal)
        sendable = sendable.filter((one) => mayGoOn(one, call))
      }
    }
  }

  async #ask(batch: readonly Outgoing[], signal: AbortSignal): Promise<readonly SendResult[]> {
    const { transport } = this.#delivery
    const results = await transport.send(
      batch.map(({ event }) => event),
      signal,
    )
    if (!Array.isArray(results) || results.length !== batch.length) {
      throw new TypeError(
        `the transport ${transport.name} was given ${batch.length} events and did not answer for each`,
      )
    }
    return results
  }

  /** The transport threw, perhaps because of one of them: that one must not hold up the others. */
  async #oneByOne(batch: readonly Outgoing[], error: unknown, call: Call): Promise<void> {
    if (batch.length === 1) stop(batch[0]!, error, call)
    else for (const one of batch) if (mayGoOn(one, call)) await this.#send([one], call)
  }

  #wentAway(error: Error): void {
    if (this.#isAway) return
    this.#isAway = true
    const { name } = this.#delivery.destination
    const message = `destination ${JSON.stringify(name)} is unavailable; its events wait`
    this.#connection.log({ level: 'warn', message, error })
  }

  #isBack(): void {
    if (!this.#isAway) return
    this.#isAway = false
    const { name } = this.#delivery.destination
    this.#connection.log({ level: 'warn', message: `destination ${JSON.stringify(name)} is available again` })
  }
}

/** They go back, and spend no attempt. */
function snooze(batch: readonly Outgoing[], delayMs: number, call: Call): void {
  for (const one of batch) stop(one, new Snooze(delayMs), call)
}

/** A job that was cancelled, or whose lease is lost, is not sent any more. */
function mayGoOn(one: Placed, call: Call): boolean {
  if (isStopped(one, call)) return false
  if (!one.job.signal.aborted) return true
  stop(one, one.job.signal.reason, call)
  return false
}

/** The event is not sent, or not known to be. Of those that are stopped in one batch the last is noted: none between them is left. */
function stop({ job, place }: Placed, error: unknown, { stopped }: Call): void {
  job.fail(error)
  stopped.set(job.partitionKey, place)
}

/** An event of its key that is ahead of it in this call was not sent, so its job goes back, and spends no attempt. */
function isStopped({ job, place }: Placed, { stopped }: Call): boolean {
  if (stopped.size === 0 || place <= (stopped.get(job.partitionKey) ?? place)) return false
  job.fail(new Snooze(0))
  return true
}

/** What a transport answers for an event behind a refused one does not count: the worker returns its job (src/worker/runs.ts). */
function settle(batch: readonly Outgoing[], results: readonly SendResult[], call: Call): void {
  for (const [nth, one] of batch.entries()) {
    const result = results[nth]!
    if (result.outcome === 'acknowledged') one.job.succeed()
    else stop(one, errorOf(result), call)
  }
}

function errorOf(result: Exclude<SendResult, { readonly outcome: 'acknowledged' }>): Error {
  if (result.outcome === 'refused_for_good') return new Fatal(result.reason)
  if (result.retryAfterMs === undefined) return new Error(result.reason)
  return new RetryAfter(result.retryAfterMs, result.reason)
}

type Column = 'source' | 'type' | 'subject' | 'data_content_type' | 'data_schema' | 'extensions' | 'time' | 'data'

function eventOf(
  row: Readonly<Record<Column, string | null>>,
  { input, partitionKey, attempt }: SendJob,
): OutgoingEvent {
  return {
    id: input.id,
    source: row.source!,
    type: row.type!,
    subject: row.subject ?? undefined,
    time: row.time!,
    dataContentType: row.data_content_type ?? undefined,
    dataSchema: row.data_schema ?? undefined,
    extensions: row.extensions === null ? {} : JSON.parse(row.extensions),
    key: partitionKey!,
    data: row.data === null ? undefined : Buffer.from(row.data, 'hex'),
    attempt,
  }
}
