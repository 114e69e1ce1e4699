/** A request to SQS and its result. Each has a deadline: the SDK itself has none. */
import type { BatchResultErrorEntry, SQSClient } from '@aws-sdk/client-sqs'
import { DeadlineError } from '../core/errors.ts'
import { withDeadline } from '../core/timer.ts'
import type { Refusal } from '../runtime/batcher.ts'
import { isThrottling } from './answer.ts'

/** The part of SQSClient that is used. */
export type SqsClient = Pick<SQSClient, 'send'>

/** Maximum entries of one request. */
export const BATCH = 10
/** The long poll: the longest that SQS allows, and the cheapest. */
export const WAIT_S = 20
/** Twelve hours: for how long SQS hides a message in all. */
export const MOST_S = 43_200

export function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith('.fifo')
}

/** For log lines. */
export function queueName(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1)
}

interface BatchAnswer {
  readonly Successful: readonly { readonly Id?: string | undefined }[] | undefined
  readonly Failed: readonly BatchResultErrorEntry[] | undefined
}

/** Entries are identified by their index. An entry missing from the reply was not carried out. */
export function refusals(entries: number, { Successful = [], Failed = [] }: BatchAnswer): Refusal[] {
  const done = new Set(Successful.map(({ Id }) => Id))
  const failed = new Map(Failed.map((entry) => [entry.Id, entry]))
  const refused: Refusal[] = []
  for (let index = 0; index < entries; index++) {
    const failure = failed.get(String(index))
    if (failure === undefined && done.has(String(index))) continue
    const { Code: code = 'NotAnswered', Message: message, SenderFault } = failure ?? {}
    refused.push({ index, code, message, forGood: SenderFault === true && !isThrottling(code) })
  }
  return refused
}

/** Aborts the request at the deadline, or when the signal aborts. */
export async function inTime<T>(
  what: string,
  ms: number,
  ask: (abortSignal: AbortSignal) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const hangUp = new AbortController()
  const onAbort = () => hangUp.abort()
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort)
  try {
    return await withDeadline(ask(hangUp.signal), ms, () => {
      hangUp.abort()
      return new DeadlineError(what, ms)
    })
  } finally {
    signal?.removeEventListener('abort', onAbort)
  }
}
