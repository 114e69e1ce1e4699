// CloudEvents of any sender, in headers or as JSON.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byEvent, eventOf } from '../../src/consumer/received-event.ts'
import { Fatal } from '../../src/index.ts'
import { decodeHeader, encodeHeader } from '../../src/nats/message.ts'

const plain = { specversion: '1.0', id: 'e-1', source: '/shop', type: 'paid' }
const json = (more: object) => ({ text: JSON.stringify({ ...plain, ...more }), attributes: {} })

test('JSON: the data is text, JSON or base64, and what is not known is an extension', () => {
  const dataOf = (more: object) => eventOf(json(more)).data && Buffer.from(eventOf(json(more)).data!).toString()
  assert.deepEqual(
    [
      dataOf({}),
      dataOf({ data: { a: 1 } }),
      dataOf({ data: 'x' }),
      dataOf({ data_base64: 'aGk=' }),
      dataOf({ data: null }),
    ],
    [undefined, '{"a":1}', '"x"', 'hi', 'null'],
  )
  assert.equal(dataOf({ data: 'x', datacontenttype: 'text/plain' }), 'x')
  assert.equal(dataOf({ data: 'x', datacontenttype: 'application/vnd.a+json; charset=utf-8' }), '"x"')
  const { extensions, key, subject } = eventOf(json({ partitionkey: 'k', tenant: 7, subject: null }))
  assert.deepEqual([extensions, key, subject], [{ tenant: 7 }, 'k', undefined])
  assert.equal(byEvent.key(json({})), '/shop e-1')
})

test('headers: in any case, wrapped as in SQS, percent-encoded or not; the body is the data', () => {
  const attributes = {
    'ce-specversion': '1.0',
    'CE-ID': { DataType: 'String', StringValue: 'e 1' },
    'ce-source': '/shop%20a',
    'ce-type': '100%',
    'Content-Type': 'text/plain',
  }
  const { id, source, type, dataContentType, data } = eventOf({ text: 'hi', attributes })
  assert.deepEqual([id, source, type, dataContentType], ['e 1', '/shop a', '100%', 'text/plain'])
  assert.equal(Buffer.from(data!).toString(), 'hi')
  assert.equal(eventOf({ text: '', attributes }).data, undefined)
  assert.deepEqual(eventOf({ text: '?', data: Buffer.from([255]), attributes }).data, Buffer.from([255]))
})

test('a message that is no CloudEvent 1.0 is poison', () => {
  for (const wrong of [
    { text: 'x', attributes: {} },
    { text: 'null', attributes: {} },
    { text: '{}', attributes: {} },
    json({ specversion: '0.3' }),
    json({ id: '' }),
    json({ source: 7 }),
    json({ type: undefined }),
    json({ time: {} }),
    { text: 'x', attributes: { 'ce-specversion': '1.0', 'ce-id': 'e' } },
  ]) {
    assert.throws(() => eventOf(wrong), Fatal)
  }
})

test('a header holds any text, and gives it back', () => {
  for (const text of ['order:9182', 'a b', '%41', '"ä" 📬', 'line\r\nbreak', '\u0000', "it's (1) *"]) {
    assert.match(encodeHeader(text), /^[!-~]*$/)
    assert.equal(decodeHeader(encodeHeader(text)), text)
  }
  assert.equal(decodeHeader('100%'), '100%')
})
