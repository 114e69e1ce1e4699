// The conformance suite, over every transport. docs/transports.md is printed from the same statements.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statementsOf, TRANSPORTS } from '../../tools/transports.ts'
import { needs, needsNatsCluster } from '../support/optional-program.ts'
import { lastFirst } from '../support/worker.ts'
import { conforms } from './conformance.ts'
import { openInProcess, openNats, openSqs } from './harness.ts'

const always = await needs(async () => {})
const needed = await needsNatsCluster()

for (const [name, open, how] of [
  ['in_process', openInProcess, always],
  ['sqs', openSqs(false), always],
  ['sqs_fifo', openSqs(true), always],
  ['nats', openNats, needed],
] as const) {
  conforms(name, open, how, { hasBroker: name !== 'in_process' })

  test(`${name}: the documentation states what this transport states`, how, async (t) => {
    const { transport } = await open(lastFirst(t))
    const documented = TRANSPORTS.find((each) => each.transport.name === name)!
    assert.deepEqual(statementsOf(transport), statementsOf(documented.transport))
  })
}
