// The view leasehold.runs: what it counts as a run, and the version that it shows.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kind } from '../../src/index.ts'
import { start, workflow } from '../../src/workflow/index.ts'
import { scene } from '../support/worker.ts'

test('leasehold.runs shows runs, and no other job whose kind has an @', async (t) => {
  const { lh, db } = await scene(t)
  await start(lh, workflow<null, void>('flow', {}), null, { runId: 'first' })
  await start(lh, workflow<null, void>('flow', { version: 1_000_000 }), null, { runId: 'last' })
  const kinds = ['mail@home', 'mail@', 'mail@0', 'mail@01', 'mail@2147483648', 'a@b@1', 'mail@1\n', 'mail@1']
  for (const name of kinds) await lh.enqueue(kind<null>(name, {}), null, { idempotencyKey: name })
  for (const query of ['', 'where version > 0', 'where version is null', `where workflow = 'flow'`]) {
    const { rows } = await db.pool.query(`select run_id, version from leasehold.runs ${query} order by version`)
    const runs = [
      { run_id: 'first', version: 1 },
      { run_id: 'last', version: 1_000_000 },
    ]
    assert.deepEqual(rows, query.includes('null') ? [] : runs, query)
  }
})
