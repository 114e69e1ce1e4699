// Invalid options of a way of handling are refused when it is made, not with each message.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kind } from '../../src/index.ts'
import { inOneTransaction, inOneUpdate, inTwoPhases, intoQueue, intoQueues } from '../../src/sqs/index.ts'
import { statusTable } from '../../src/tables/index.ts'
import { summaries } from '../tables/summaries.ts'

const f = async () => ({})
const pool = { query: f }
const inbox = { once: f, leasehold: { enqueue: f } }
const mail = kind('mail')
const arrow = { from: 'pending', to: 'completed' }
const flat = statusTable('summary', { phases: false })

/** As a JavaScript program calls them. */
type Loose = (...given: unknown[]) => unknown
const [two, one, once, queue, queues] = [
  inTwoPhases,
  inOneUpdate,
  inOneTransaction,
  intoQueue,
  intoQueues,
] as Loose[] as [Loose, Loose, Loose, Loose, Loose]

for (const [what, make, says] of [
  ['no table', () => two(undefined, pool, { id: f, effect: f }), /inTwoPhases\.table .* statusTable\(/],
  ['a table by its name', () => one('summary', pool, { ...arrow, id: f, work: f }), /inOneUpdate\.table/],
  ['no pool', () => two(summaries, undefined, { id: f, effect: f }), /inTwoPhases\.pool .* new pg\.Pool/],
  ['a URL for a pool', () => one(summaries, 'postgres://', { ...arrow, id: f, work: f }), /inOneUpdate\.pool/],
  ['two functions, not named', () => two(summaries, pool, f, f), /inTwoPhases .* object of options/],
  ['nothing else', () => two(summaries, pool), /inTwoPhases .* object of options/],
  ['no id', () => two(summaries, pool, { effect: f }), /inTwoPhases\.id .* function/],
  ['an id that is none', () => one(summaries, pool, { ...arrow, id: 'id', work: f }), /inOneUpdate\.id/],
  ['no effect', () => two(summaries, pool, { id: f }), /inTwoPhases\.effect/],
  ['work for an effect', () => two(summaries, pool, { id: f, work: f }), /inTwoPhases\.work .* no such option/],
  ['no work', () => one(summaries, pool, { ...arrow, id: f }), /inOneUpdate\.work/],
  ['a table without phases', () => two(flat, pool, { id: f, effect: f }), /phases are false/],
  ['no arrow', () => one(summaries, pool, { id: f, work: f }), /no arrow undefined/],
  [
    'another arrow',
    () => one(summaries, pool, { from: 'pending', to: 'done', id: f, work: f }),
    /no arrow pending → done/,
  ],
  ['an inbox by its name', () => once('test', f), /inOneTransaction\.inbox .* new Inbox\(leasehold/],
  ['no work, once', () => once(inbox), /inOneTransaction\.work/],
  ['a key for a function', () => once(inbox, f, { key: 'id' }), /inOneTransaction\.key/],
  [
    'a word for compare',
    () => once(inbox, f, { compare: 'no' }),
    /inOneTransaction\.compare .* true, false or a function/,
  ],
  ['a pool for an inbox', () => once(pool, f), /inOneTransaction\.inbox .* new Inbox/],
  ['no inbox', () => queue(undefined, mail), /intoQueues\.inbox/],
  ['no kind', () => queue(inbox), /declare them with kind\(/],
  ['an option of another way', () => queue(inbox, mail, { input: f }), /intoQueue\.input .* no such option/],
  ['no options', () => queues(inbox), /intoQueues .* object of options/],
  ['no kinds', () => queues(inbox, { kindOf: 'type' }), /declare them with kind\(/],
  ['no kindOf', () => queues(inbox, { kinds: [mail] }), /intoQueues\.kindOf .* field of the body, or a function/],
  ['a number for it', () => queues(inbox, { kinds: [mail], kindOf: 1 }), /intoQueues\.kindOf/],
  ['an input that is none', () => queues(inbox, { kinds: [mail], kindOf: f, input: {} }), /intoQueues\.input/],
] as const) {
  test(`refused when it is made: ${what}`, () => {
    assert.throws(make, (error: Error & { code?: unknown }) => {
      assert.equal(error.code, 'INVALID_OPTION')
      assert.match(error.message, says)
      return true
    })
  })
}

test('valid options are accepted', () => {
  two(summaries, pool, { id: f, effect: f })
  one(flat, pool, { ...arrow, id: f, work: f })
  once(inbox, f, { key: f, compare: false })
  queue(inbox, mail)
  for (const kindOf of ['type', f]) queues(inbox, { kinds: [mail], kindOf, input: f, key: f })
})

test('an undeclared status in the options is refused, and does not count as already handled', async () => {
  await assert.rejects(summaries.look(pool as never, 1, 'pendign' as never), /no status pendign; there are pending/)
})
