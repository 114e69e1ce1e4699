import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeError } from '../../src/core/error-description.ts'

test('describeError returns name, message, code, stack, causes and the errors of an AggregateError', () => {
  class PaymentError extends Error {
    code = 'E_PAY\0'
  }
  const inner = Object.assign(new TypeError('inner \0'), { cause: 'a string' })
  const described = describeError(new PaymentError('outer', { cause: inner }))
  assert.deepEqual([described.name, described.message, described.code], ['PaymentError', 'outer', 'E_PAY\ufffd'])
  assert.match(described.stack ?? '', /error-description\.test/)
  assert.deepEqual([described.cause?.name, described.cause?.message], ['TypeError', 'inner \ufffd'])
  assert.deepEqual(described.cause?.cause, { name: 'NonError', message: 'a string' })
  const many = describeError(new AggregateError(Array.from({ length: 30 }, (_, i) => new Error(`e${i}`))))
  assert.deepEqual(
    many.errors?.map((error) => error.message),
    Array.from({ length: 10 }, (_, i) => `e${i}`),
  )
})

test('describeError describes a thrown value that is not an Error', () => {
  const messageOf = (thrown: unknown) => describeError(thrown).message
  assert.deepEqual(
    [messageOf('x'), messageOf(null), messageOf(undefined), messageOf(5n)],
    ['x', 'null', 'undefined', '5'],
  )
  assert.equal(messageOf({ status: 500, error: new TypeError('t') }), '{"status":500,"error":"[TypeError]"}')
  assert.equal(messageOf({ message: 'like an error' }), 'like an error')
})

test('describeError is bounded for any value, and ends on a cycle', () => {
  const loop: Error = new Error('loop')
  loop.cause = new Error('back', { cause: loop })
  assert.equal(describeError(loop).cause?.cause?.message, '[circular]')
  const tree = (depth: number): Error =>
    Object.assign(
      new AggregateError(depth === 0 ? [] : Array.from({ length: 12 }, () => tree(depth - 1)), 'é'.repeat(20_000)),
      { cause: 'é'.repeat(20_000) },
    )
  const described = describeError(tree(3))
  assert.equal(described.message.length, 8192)
  assert.ok(Buffer.byteLength(JSON.stringify(described)) < 400_000)
  let chain: unknown
  for (let i = 0; i < 50; i++) chain = new Error(`${i}`, { cause: chain })
  let depth = 0
  for (let at = describeError(chain); at.cause; at = at.cause) depth++
  assert.equal(depth, 5)
})
