import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isTransient } from '../../src/sqs/answer.ts'

function answered(httpStatusCode: number, name: string): Error {
  return Object.assign(new Error(name), { name, $metadata: { httpStatusCode } })
}

test('a request is retried when SQS is unreachable, throttles or fails, or credentials have expired', () => {
  for (const error of [
    Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }),
    Object.assign(new Error('connect'), { code: 'ECONNREFUSED', $metadata: { attempts: 3 } }),
    new SyntaxError('Unexpected end of JSON input'),
    answered(200, 'SyntaxError'),
    answered(500, 'InternalError'),
    answered(503, 'ServiceUnavailable'),
    answered(408, 'RequestTimeout'),
    answered(429, 'Odd'),
    answered(400, 'RequestThrottled'),
    answered(400, 'ThrottlingException'),
    answered(403, 'OverLimit'),
    answered(403, 'ExpiredToken'),
    answered(403, 'RequestTimeTooSkewed'),
    undefined,
  ]) {
    assert.equal(isTransient(error), true, String(error))
  }
})

test('a request is not retried after a refusal', () => {
  for (const error of [
    answered(400, 'QueueDoesNotExist'),
    answered(400, 'AWS.SimpleQueueService.NonExistentQueue'),
    answered(400, 'InvalidMessageContents'),
    answered(403, 'AccessDenied'),
    answered(403, 'InvalidClientTokenId'),
    answered(404, 'NotFound'),
  ]) {
    assert.equal(isTransient(error), false, error.name)
  }
})
