/** What goes into one message, in a form that SQS takes. */
import { createHash } from 'node:crypto'
import { InvalidOptionError } from '../core/errors.ts'
import { encodeInput } from '../core/storable.ts'

/** Letters, digits and punctuation. */
const LABEL = /^[!-~]{1,128}$/

/** JSON that comes back as it went. SQS refuses U+FFFE and U+FFFF, and some of its likes all that is beyond them. */
export function encodeBody(body: unknown, maxBytes: number): string {
  const json = encodeInput(body, { bytes: Math.min(maxBytes, 32 * 1024 * 1024) }).replaceAll(
    /[\ud800-\udfff\ufffe\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16)}`,
  )
  if (Buffer.byteLength(json) <= maxBytes) return json
  throw new InvalidOptionError('body', `it makes a message of more than ${maxBytes} bytes`)
}

/** The default has to do for any id: those that SQS would not take are known by their hash. */
export function groupOf(id: string, given: ((id: string) => string) | undefined, fifo: boolean): string | undefined {
  if (given === undefined) {
    if (!fifo) return undefined
    return LABEL.test(id) ? id : createHash('sha256').update(id).digest('hex')
  }
  return checkLabel('groupId', given(id))
}

/** SQS would refuse the whole request. */
export function checkLabel(option: string, value: string): string {
  if (typeof value === 'string' && LABEL.test(value)) return value
  throw new InvalidOptionError(option, 'it must be 1 to 128 letters, digits and punctuation marks of ASCII')
}
