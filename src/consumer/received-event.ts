/** CloudEvents as they arrive: in headers with the data as the body (binary mode), or as JSON in the body (structured mode). */
import { Fatal } from '../core/steering.ts'
import type { Message } from './held.ts'

/** The attributes by their own names, in camel case. */
export interface ReceivedEvent {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly subject: string | undefined
  readonly time: string | undefined
  readonly dataContentType: string | undefined
  readonly dataSchema: string | undefined
  /** The extension `partitionkey`. */
  readonly key: string | undefined
  /** The other extensions. */
  readonly extensions: Readonly<Record<string, unknown>>
  /** The bytes as they were published. Undefined: the event has no data. */
  readonly data: Uint8Array | undefined
}

type Holder = Pick<Message, 'text' | 'data' | 'attributes'>

/** Read once, however many functions of a handler ask. */
const events = new WeakMap<Holder, ReceivedEvent>()

/** Of a message that holds a CloudEvent. Throws Fatal if it does not: such a message is a dead letter. */
export function eventOf(message: Holder): ReceivedEvent {
  const event = events.get(message) ?? fromHeaders(message) ?? fromJson(message.text)
  events.set(message, event)
  return event
}

/**
 * For inOneTransaction and intoQueues: the inbox knows a message by its event, over all transports. Source and id are unique
 * together, and no source holds a space. The data is compared, since its envelope differs between transports.
 */
export const byEvent = {
  key: (message: Holder): string => `${eventOf(message).source} ${eventOf(message).id}`,
  compare: (message: Holder): Uint8Array | undefined => eventOf(message).data,
}

function fromHeaders({ attributes, text, data }: Holder): ReceivedEvent | undefined {
  const named: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(attributes)) {
    const [, attribute] = /^ce[-_](\w+)$/i.exec(name) ?? []
    if (attribute !== undefined) named[attribute.toLowerCase()] = decoded(textOf(value))
    if (name.toLowerCase() === 'content-type') named.datacontenttype = decoded(textOf(value))
  }
  if (named.specversion === undefined) return undefined
  const bytes = data ?? Buffer.from(text)
  return checked(named, bytes.length === 0 ? undefined : bytes)
}

function fromJson(body: string): ReceivedEvent {
  let whole: Record<string, unknown>
  try {
    whole = JSON.parse(body)
  } catch {
    throw noEvent('it is not JSON')
  }
  if (typeof whole !== 'object' || whole === null) throw noEvent('it is no object')
  const { data, data_base64: base64, ...named } = whole
  if (typeof base64 === 'string') return checked(named, Buffer.from(base64, 'base64'))
  // Text, if it is declared as anything but JSON.
  const isJson = named.datacontenttype === undefined || /[/+]json\s*(;|$)/i.test(String(named.datacontenttype))
  const text = typeof data === 'string' && !isJson ? data : JSON.stringify(data)
  return checked(named, data === undefined ? undefined : Buffer.from(text))
}

function checked(named: Record<string, unknown>, data: Uint8Array | undefined): ReceivedEvent {
  const { specversion, id, source, type, subject, time, datacontenttype, dataschema, partitionkey, ...extensions } =
    named
  if (specversion !== '1.0') throw noEvent('its specversion is not 1.0')
  const required = (name: string, value: unknown): string => {
    if (typeof value === 'string' && value !== '') return value
    throw noEvent(`it has no ${name}`)
  }
  const optional = (name: string, value: unknown): string | undefined =>
    value === undefined || value === null ? undefined : required(name, value)
  return {
    id: required('id', id),
    source: required('source', source),
    type: required('type', type),
    subject: optional('subject', subject),
    time: optional('time', time),
    dataContentType: optional('datacontenttype', datacontenttype),
    dataSchema: optional('dataschema', dataschema),
    key: optional('partitionkey', partitionkey),
    extensions,
    data,
  }
}

/** SQS wraps values. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return String((value as { readonly StringValue?: unknown } | null)?.StringValue ?? '')
}

/** Of any sender: what is not percent-encoded stays as it is. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

function noEvent(why: string): Fatal {
  return new Fatal(`the message is no CloudEvent: ${why}`)
}
