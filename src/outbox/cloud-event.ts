/** CloudEvents 1.0: how an event is written for a broker. Binary mode where a broker has headers, else the JSON format. */
import type { OutgoingEvent } from './transport.ts'

export const SPEC_VERSION = '1.0'

/**
 * The attributes under their CloudEvents names, as text, without the data. In binary mode each is a header of its own (`ce-id`,
 * `ce-source` …), but for `datacontenttype`, which is the broker's own header for content types.
 */
export function attributesOf(event: OutgoingEvent): Record<string, string> {
  const attributes: Record<string, string> = {
    specversion: SPEC_VERSION,
    id: event.id,
    source: event.source,
    type: event.type,
    time: event.time,
    partitionkey: event.key,
  }
  if (event.subject !== undefined) attributes.subject = event.subject
  if (event.dataContentType !== undefined) attributes.datacontenttype = event.dataContentType
  if (event.dataSchema !== undefined) attributes.dataschema = event.dataSchema
  for (const [name, value] of Object.entries(event.extensions)) attributes[name] = String(value)
  return attributes
}

/**
 * The event in the JSON format (`application/cloudevents+json`). Its data is `data_base64`, so that a receiver gets the bytes as
 * they were published; JSON data that went through a parser would be another text, and no signature over it would hold.
 */
export function jsonOf(event: OutgoingEvent): string {
  const { extensions, data } = event
  return JSON.stringify({
    ...attributesOf({ ...event, extensions: {} }),
    ...extensions,
    ...(data === undefined ? {} : { data_base64: Buffer.from(data).toString('base64') }),
  })
}
