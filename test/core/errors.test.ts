import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as errors from '../../src/core/errors.ts'
import { SeatTakenError } from '../../src/ring/errors.ts'
import * as workflow from '../../src/workflow/errors.ts'

test('every error has its own code, its class as its name, and the codes are the published list', () => {
  const lost = new errors.LeaseLostError({ jobId: '17', generation: 3 })
  const schema = new errors.SchemaError('no such schema', { cause: 'x' })
  const all = [
    new errors.CancelRequestedError('17'),
    new errors.ConcurrentModificationError('incident', [], ['17']),
    new errors.DeadlineError('A statement', 10),
    new errors.EffectUnknownError('17', 'charge', '2026-01-01'),
    new errors.EventConflictError('orders', 'e1'),
    new errors.IdempotencyConflictError([{ index: 0, idempotencyKey: 'a', jobId: '17' }]),
    new errors.InvalidInputError('mail', [{ path: 'to.0', message: 'expected a string' }]),
    new errors.InvalidOptionError('lease', 'it is negative'),
    new errors.JobNotFoundError('17'),
    lost,
    new errors.LockTimeoutError('entity:7', 10),
    new errors.NotSentError('a queue', [{ id: '17', refused: true, reason: 'too large' }]),
    new errors.RolledBackError(),
    new workflow.RunFinishedError('checkout', 'r'),
    new workflow.RunNotFoundError('checkout', 'r'),
    schema,
    new SeatTakenError(3),
    new workflow.StepFailedError('charge', { name: 'Error', message: 'no' }),
    new errors.StoppingError(),
    new errors.TimedOutError('The handler of mail', 10),
    new errors.TransactionConflictError(),
    new errors.ValueNotStorableError('$', 'x'),
    new workflow.WorkflowChangedError('checkout@1', ['charge']),
  ]
  assert.deepEqual(
    all.map((error) => error.code),
    [...errors.ERROR_CODES],
  )
  for (const error of all) assert.ok(error instanceof errors.LeaseholdError && error.name === error.constructor.name)
  assert.match(lost.message, /job 17 \(generation 3\).*Nothing was changed/)
  assert.equal(schema.cause, 'x')
})
