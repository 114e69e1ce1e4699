import { bucketOf } from './bucket.ts'
import { checkInteger, checkText } from './check.ts'

/**
 * Splits a hot key into `streams` keys, each in order. `by` decides which: jobs that must stay in order among each other pass the
 * same. `substream('account:7', 'invoice:9', 8)` is one of `account:7/0` to `account:7/7`, always the same.
 */
export function substream(key: string, by: string, streams: number): string {
  checkText('key', key, 990)
  checkText('by', by, 1_000)
  return `${key}/${bucketOf(by) % checkInteger('streams', streams, 1, 1_024)}`
}
