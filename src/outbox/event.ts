/** Events as producers publish them, checked and encoded before anything is sent. */
import { randomUUID } from 'node:crypto'
import { bucketOf } from '../core/bucket.ts'
import { checkDate, checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { encodeInput } from '../core/storable.ts'
import { numericArray } from '../db/parameters.ts'

export const MAX_DATA_BYTES = 2 ** 20
const MAX_EXTENSION_BYTES = 16_384

/** The attributes are those of CloudEvents 1.0. */
export interface NewEvent {
  /** What happened, such as `order.paid`. Destinations choose by it. */
  readonly type: string
  /** The service in which it happened, as a URI reference such as `/orders`. Default: that of the Outbox. */
  readonly source?: string
  /** What it happened to, such as an order's id. */
  readonly subject?: string
  /** Events of the same key reach each destination in the order of their commits. Default: the event's id, so no order. */
  readonly key?: string
  /** Bytes are stored and sent as they are. Anything else must be JSON, and is sent as its text. */
  readonly data?: unknown
  /** Default: `application/json` for JSON, `application/octet-stream` for bytes. */
  readonly dataContentType?: string
  readonly dataSchema?: string
  /** When it happened. Default: when it is published, by the database's clock. */
  readonly time?: Date
  /** Names of 1 to 20 of a-z and 0-9. */
  readonly extensions?: Readonly<Record<string, string | number | boolean>>
  /** A UUID, if you need to know it beforehand. An event with the id of another is dropped by receivers. Default: a random one. */
  readonly id?: string
}

const KNOWN = ['type', 'source', 'subject', 'key', 'data', 'dataContentType', 'dataSchema', 'time', 'extensions', 'id']
/** Names of attributes that cannot be an extension's. */
const RESERVED = ['id', 'source', 'type', 'subject', 'time', 'specversion', 'datacontenttype', 'dataschema', 'data']
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export interface EncodedEvent {
  readonly id: string
  readonly time: string | null
  readonly source: string
  readonly type: string
  readonly subject: string | null
  readonly key: string | null
  readonly dataContentType: string | null
  readonly dataSchema: string | null
  readonly extensions: string | null
  /** Hexadecimal. */
  readonly data: string | null
}

export function encodeEvent(of: string, event: NewEvent, defaultSource: string | undefined): EncodedEvent {
  if (typeof event !== 'object' || event === null) {
    throw new InvalidOptionError(of, "it must be an event: { type: 'order.paid', key: 'order:9182', data: { … } }")
  }
  checkOptions(of, event, KNOWN)
  const source = event.source ?? defaultSource
  if (source === undefined) {
    throw new InvalidOptionError(`${of}.source`, 'pass it, or give the Outbox a source that all its events have')
  }
  if (event.id !== undefined && !(typeof event.id === 'string' && UUID.test(event.id))) {
    throw new InvalidOptionError(`${of}.id`, 'it must be a UUID; leave it out for a random one')
  }
  const { data, isBytes } = encodeData(`${of}.data`, event.data)
  return {
    id: event.id?.toLowerCase() ?? randomUUID(),
    time: event.time === undefined ? null : checkDate(`${of}.time`, event.time),
    source: checkText(`${of}.source`, source, 1_000),
    type: checkText(`${of}.type`, event.type, 200),
    subject: optionalText(`${of}.subject`, event.subject, 1_000),
    key: optionalText(`${of}.key`, event.key, 1_000),
    dataContentType:
      optionalText(`${of}.dataContentType`, event.dataContentType, 200) ??
      (data === null ? null : isBytes ? 'application/octet-stream' : 'application/json'),
    dataSchema: optionalText(`${of}.dataSchema`, event.dataSchema, 1_000),
    extensions: event.extensions === undefined ? null : encodeExtensions(`${of}.extensions`, event.extensions),
    data,
  }
}

/** The parameters of leasehold.publish_many(). */
export function eventColumns(events: readonly EncodedEvent[]): unknown[] {
  const keys = events.map(({ id, key }) => key ?? id)
  return [
    events.map(({ id }) => id),
    events.map(({ time }) => time),
    events.map(({ source }) => source),
    events.map(({ type }) => type),
    events.map(({ subject }) => subject),
    events.map(({ key }) => key),
    events.map(({ dataContentType }) => dataContentType),
    events.map(({ dataSchema }) => dataSchema),
    events.map(({ extensions }) => extensions),
    events.map(({ data }) => data),
    keys,
    numericArray(keys.map(bucketOf)),
  ]
}

function optionalText(option: string, value: string | undefined, maxBytes: number): string | null {
  return value === undefined ? null : checkText(option, value, maxBytes)
}

function encodeData(option: string, data: unknown): { data: string | null; isBytes: boolean } {
  if (data === undefined) return { data: null, isBytes: false }
  const isBytes = data instanceof Uint8Array
  const bytes = isBytes ? Buffer.from(data.buffer, data.byteOffset, data.byteLength) : Buffer.from(encodeInput(data))
  if (bytes.length > MAX_DATA_BYTES) {
    throw new InvalidOptionError(option, 'it is larger than 1 MiB; store it elsewhere and publish its address')
  }
  return { data: bytes.toString('hex'), isBytes }
}

function encodeExtensions(option: string, extensions: Readonly<Record<string, unknown>>): string {
  for (const [name, value] of Object.entries(extensions)) {
    if (!/^[a-z0-9]{1,20}$/.test(name) || RESERVED.includes(name) || name === 'partitionkey') {
      const rule = 'a name is 1 to 20 of a-z and 0-9, and not that of another attribute'
      throw new InvalidOptionError(`${option}.${name}`, name === 'partitionkey' ? 'pass it as `key`' : rule)
    }
    if (!['string', 'boolean'].includes(typeof value) && !Number.isInteger(value)) {
      throw new InvalidOptionError(`${option}.${name}`, 'it must be a string, a whole number or a boolean')
    }
  }
  return encodeInput(extensions, { bytes: MAX_EXTENSION_BYTES })
}
