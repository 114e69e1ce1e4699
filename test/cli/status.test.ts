// What `leasehold status` can know depends on the rights of its role.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { command } from '../support/command.ts'
import { urlAs, withRoles } from '../support/roles.ts'

test('status names its limit if its role sees no transactions of others, and reports them with pg_read_all_stats', async (t) => {
  const { db, roles } = await withRoles(t)
  const url = urlAs(db, roles.reader)
  const session = await db.connect()
  await session.query('begin')
  await session.query('select from leasehold.job')
  const status = (...options: string[]) => command(url, 'status', '--open-transaction', '0s', ...options)

  const limited = await status()
  assert.equal(limited.code, 0, limited.out)
  assert.match(
    limited.out,
    /^healthy {2}[^\n]*\n {2}note: role Reader; drop role x_\d+_\d+ sees no transactions of other roles/,
  )
  assert.match(limited.out, /; grant pg_read_all_stats to it\n {4}→ docs\/roles\.md\n$/)
  assert.equal(JSON.parse((await status('--json')).out).seesAllTransactions, false)

  await db.pool.query(`grant pg_read_all_stats to "${roles.reader}"`)
  const full = await status('--json')
  assert.equal(full.code, 1)
  const { seesAllTransactions, trouble } = JSON.parse(full.out)
  assert.deepEqual([seesAllTransactions, trouble.length, trouble[0].what], [true, 1, 'held_transaction'])
  const printed = (await status()).out
  assert.doesNotMatch(printed, /note:/)
  await session.query('rollback')
})
