/**
 * Publishes rows to workers through SQS. The row is the truth and the message only a hint: a message may be lost or
 * delivered twice. So the publisher sends each message, repeats it when the outcome is unknown, and reports the messages
 * not sent.
 */

import { randomUUID } from 'node:crypto'
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs'
import { backoffMs } from '../core/backoff.ts'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { describeError } from '../core/error-description.ts'
import { InvalidOptionError, NotSentError, type Unsent } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { sleep } from '../core/timer.ts'
import type { Refusal } from '../runtime/batcher.ts'
import { checkRowId, type RowId } from '../tables/row-id.ts'
import { isTransient, maybeAboutOneEntry } from './answer.ts'
import { checkLabel, encodeBody, groupOf } from './entry.ts'
import { checkQueueUrl } from './queue-url.ts'
import { BATCH, inTime, isFifo, refusals, type SqsClient } from './request.ts'

const BACKOFF = { firstMs: 50, maxMs: 5_000 }
/** How far a request looks for groups that are not busy. */
const LOOK_AHEAD = 1_000

export interface SqsPublisherOptions {
  /** A FIFO queue if it ends in `.fifo`. */
  readonly queueUrl: string
  /** The body of the message about a row, whose id is text here. Sent as JSON. */
  readonly body: (id: string) => unknown
  /** Default: on a FIFO queue the id, so that rows do not wait for each other; on others none. */
  readonly groupId?: (id: string) => string
  /**
   * For FIFO queues only, which for five minutes drop a message whose id they know, and report success. Called once for each
   * publish(). Default: a random one. An id derived from the row must change when the row is to be worked on again.
   */
  readonly deduplicationId?: (id: string) => string
  /** Of a message, and of ten together. Default: 1 MiB. AWS had 256 KiB for years; other implementations may still. */
  readonly maxBytes?: number
  /** Concurrent requests, over all publish() calls. Default: 4. */
  readonly concurrency?: number
  /** How often a message is sent at most. The SDK's own retries happen within each of these. Default: 5. */
  readonly attempts?: number
  /** Deadline of one request. Default: 30s. */
  readonly timeout?: Duration
}

export type PublisherCounts = Readonly<Record<'sent' | 'sentAgain' | 'notSent', number>>

const KNOWN = ['queueUrl', 'body', 'groupId', 'deduplicationId', 'maxBytes', 'concurrency', 'attempts', 'timeout']

interface Entry {
  readonly id: string
  readonly body: string
  readonly bytes: number
  readonly group: string | undefined
  readonly deduplication: string | undefined
  readonly settle: (unsent?: Unsent) => void
  attempts: number
  /** In a request of its own: a shared request was refused as a whole, perhaps because of another entry. */
  isAlone: boolean
}

/**
 * Usage for a producer: commit the row, then publish. Not the other way round, nor inside the transaction: a fast worker
 * would find no row. If the process or the message is lost in between, recovery re-publishes the row after `resendAfter`.
 *
 *     const publisher = new SqsPublisher(new SQSClient({}), { queueUrl, body: (id) => ({ id }) })
 *     const recovery = summaries.recovery({ publish: (ids) => publisher.publish(ids), resendAfter: '30m' })
 *
 *     await withTransaction(pool, (tx) => addSummary(tx, id))
 *     await publisher.publish([id]).catch(log) // The row is there, so the request has succeeded.
 *
 * Concurrent calls share requests. Ids of one FIFO group are sent in the order given, but one that SQS refused at first may
 * follow those that were in the same request.
 */
export class SqsPublisher {
  readonly #client: SqsClient
  readonly #options: SqsPublisherOptions
  readonly #isFifo: boolean
  readonly #maxBytes: number
  readonly #concurrency: number
  readonly #attempts: number
  readonly #timeoutMs: number
  readonly #waiting: Entry[] = []
  /** FIFO groups with a message in flight: the next one would overtake it. */
  readonly #busyGroups = new Set<string>()
  readonly #counts = { sent: 0, sentAgain: 0, notSent: 0 }
  #requests = 0

  constructor(client: SqsClient, options: SqsPublisherOptions) {
    checkOptions('SqsPublisher', options, KNOWN)
    if (typeof client?.send !== 'function') throw new InvalidOptionError('client', 'it must be an SQSClient')
    for (const name of ['body', 'groupId', 'deduplicationId'] as const) {
      const isMissing = options?.[name] === undefined && name !== 'body'
      if (isMissing || typeof options?.[name] === 'function') continue
      throw new InvalidOptionError(`SqsPublisher.${name}`, 'it must be a function of the id')
    }
    this.#client = client
    this.#options = options
    this.#isFifo = isFifo(checkQueueUrl('SqsPublisher.queueUrl', options.queueUrl))
    if (!this.#isFifo && options.deduplicationId !== undefined) {
      throw new InvalidOptionError('SqsPublisher.deduplicationId', 'the queue is not a FIFO queue; leave it out')
    }
    this.#maxBytes = checkInteger('SqsPublisher.maxBytes', options.maxBytes ?? 1_048_576, 1_024, 2 ** 30)
    this.#concurrency = checkInteger('SqsPublisher.concurrency', options.concurrency ?? 4, 1, 1_000)
    this.#attempts = checkInteger('SqsPublisher.attempts', options.attempts ?? 5, 1, 1_000)
    this.#timeoutMs = durationMs('SqsPublisher.timeout', options.timeout ?? '30s', 1)
  }

  /**
   * Resolves when SQS has accepted a message for each id. Otherwise throws NotSentError with those refused or unknown; all
   * others are sent.
   */
  async publish(ids: readonly RowId[]): Promise<void> {
    if (!Array.isArray(ids)) throw new InvalidOptionError('ids', 'it must be an array of ids')
    const spelt = Array.from(ids, (id) => String(checkRowId(id)))
    const settled = [...new Set(spelt)].map((id) => this.#accept(id))
    this.#sendMore()
    const unsent = (await Promise.all(settled)).filter((each) => each !== undefined)
    this.#counts.sent += settled.length - unsent.length
    this.#counts.notSent += unsent.length
    if (unsent.length > 0) throw new NotSentError(this.#options.queueUrl, unsent)
  }

  /** Counts of messages. sentAgain: attempts after the first. */
  counts(): PublisherCounts {
    return { ...this.#counts }
  }

  #accept(id: string): Promise<Unsent | undefined> {
    return new Promise((settle) => {
      try {
        const body = encodeBody(this.#options.body(id), this.#maxBytes)
        const bytes = Buffer.byteLength(body)
        const group = groupOf(id, this.#options.groupId, this.#isFifo)
        const deduplication = this.#isFifo ? this.#deduplicationOf(id) : undefined
        this.#waiting.push({ id, body, bytes, group, deduplication, settle, attempts: 0, isAlone: false })
      } catch (error) {
        settle({ id, refused: true, reason: reasonOf(error) })
      }
    })
  }

  /**
   * One id for each publish(). A request whose reply was lost is repeated with the same id, and FIFO drops the copy. A row
   * that is ready again, redriven or reclaimed, is published by another publish(), and that message must be delivered even
   * within five minutes: with the row's id alone, or a hash of the content, the queue would drop it and report success. The
   * row stops unnecessary duplicates.
   */
  #deduplicationOf(id: string): string {
    return checkLabel('deduplicationId', this.#options.deduplicationId?.(id) ?? randomUUID())
  }

  /** At the limit of concurrent requests, messages gather for a fuller request. */
  #sendMore(): void {
    while (this.#requests < this.#concurrency) {
      const batch = this.#takeBatch()
      if (batch.length === 0) return
      this.#requests++
      for (const { group } of batch) if (this.#isFifo) this.#busyGroups.add(group!)
      void this.#send(batch).then((again) => {
        this.#requests--
        for (const { group } of batch) if (this.#isFifo) this.#busyGroups.delete(group!)
        this.#waiting.unshift(...again)
        this.#sendMore()
      })
    }
  }

  #takeBatch(): Entry[] {
    const taken: number[] = []
    let bytes = 0
    for (let index = 0; index < Math.min(this.#waiting.length, LOOK_AHEAD); index++) {
      const entry = this.#waiting[index]!
      if (this.#isFifo && this.#busyGroups.has(entry.group!)) continue
      // A smaller entry further on might fit, but could overtake its own group.
      if (taken.length > 0 && (entry.isAlone || bytes + entry.bytes > this.#maxBytes)) break
      taken.push(index)
      bytes += entry.bytes
      if (entry.isAlone || taken.length === BATCH) break
    }
    // Usually the first ones, and removing the very front of a long array costs next to nothing.
    if (taken.at(-1) === taken.length - 1) return this.#waiting.splice(0, taken.length)
    const batch = taken.map((index) => this.#waiting[index]!)
    for (const index of taken.reverse()) this.#waiting.splice(index, 1)
    return batch
  }

  /** Returns the entries to send again, when their delay is over. */
  async #send(batch: readonly Entry[]): Promise<Entry[]> {
    for (const entry of batch) entry.attempts++
    const again = await this.#request(batch).then(
      (answer) => this.#afterAnswer(batch, answer),
      (error) => this.#afterError(batch, error),
    )
    // Keeps the slot of this request during the delay, so that a failing SQS receives fewer requests.
    if (again.length > 0) await sleep(backoffMs(Math.max(...again.map(({ attempts }) => attempts)), BACKOFF))
    return again
  }

  async #request(batch: readonly Entry[]): Promise<readonly Refusal[]> {
    const Entries = batch.map(({ body, group, deduplication }, index) => ({
      Id: String(index),
      MessageBody: body,
      ...(group === undefined ? {} : { MessageGroupId: group }),
      ...(deduplication === undefined ? {} : { MessageDeduplicationId: deduplication }),
    }))
    const command = new SendMessageBatchCommand({ QueueUrl: this.#options.queueUrl, Entries })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    return refusals(batch.length, await inTime('SendMessageBatch', this.#timeoutMs, ask))
  }

  #afterAnswer(batch: readonly Entry[], refused: readonly Refusal[]): Entry[] {
    const why = new Map(refused.map((refusal) => [refusal.index, refusal]))
    return batch.filter((entry, index) => {
      const refusal = why.get(index)
      if (refusal === undefined) return void entry.settle()
      const { code, message, forGood } = refusal
      return this.#isToBeSentAgain(entry, forGood, message === undefined ? code : `${code}: ${message}`)
    })
  }

  #afterError(batch: readonly Entry[], error: unknown): Entry[] {
    const refused = !isTransient(error)
    if (refused && batch.length > 1 && maybeAboutOneEntry(error)) {
      for (const entry of batch) {
        entry.isAlone = true
        entry.attempts-- // This entry may be valid.
      }
      return [...batch]
    }
    return batch.filter((entry) => this.#isToBeSentAgain(entry, refused, reasonOf(error)))
  }

  #isToBeSentAgain(entry: Entry, refused: boolean, reason: string): boolean {
    if (!refused && entry.attempts < this.#attempts) {
      this.#counts.sentAgain++
      return true
    }
    entry.settle({ id: entry.id, refused, reason })
    return false
  }
}

function reasonOf(error: unknown): string {
  const { name, message } = describeError(error)
  return `${name}: ${message}`
}
