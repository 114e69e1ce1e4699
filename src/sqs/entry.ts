/** The contents of one message, in a form that SQS accepts. */
import { createHash } from 'node:crypto'
import { InvalidOptionError } from '../core/errors.ts'
import { encodeInput } from '../core/storable.ts'

/** Letters, digits and punctuation. */
const LABEL = /^[!-~]{1,128}$/

export function encodeBody(body: unknown, maxBytes: number): string {
  const json = asSqsText(encodeInput(body, { bytes: Math.min(maxBytes, 32 * 1024 * 1024) }))
  if (Buffer.byteLength(json) <= maxBytes) return json
  throw new InvalidOptionError('body', `the message exceeds ${maxBytes} bytes; send a reference to the data instead`)
}

/** JSON that parses back unchanged. SQS refuses U+FFFE and U+FFFF, and some emulators every character beyond them. */
export function asSqsText(json: string): string {
  return json.replaceAll(/[\ud800-\udfff\ufffe\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16)}`)
}

/** The default must fit any id: an id that SQS would refuse is replaced by its hash. */
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
