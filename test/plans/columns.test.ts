// A column of leasehold.job that a list forgets is lost when the job ends, or when it is redriven. Every list is compared
// with the catalogue here; a column that belongs in no list is named, with the reason.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import * as claimSql from '../../src/jobs/claim.sql.ts'
import { newClaimId } from '../../src/jobs/claim.ts'
import { complete, turn } from '../../src/jobs/completion.ts'
import * as enqueueSql from '../../src/jobs/enqueue.sql.ts'
import * as housekeepingSql from '../../src/jobs/housekeeping.sql.ts'
import type { ClaimedJob, JobId } from '../../src/jobs/job.ts'
import * as operatorSql from '../../src/jobs/operator.sql.ts'
import { redrive } from '../../src/jobs/operator.ts'
import * as outcomeSql from '../../src/jobs/outcome.sql.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { suiteDatabase } from '../support/database.ts'
import { claimedBy, LEASE_MS, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()

async function columnsOf(table: string): Promise<string[]> {
  const { rows } = await db.pool.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
    [`leasehold.${table}`],
  )
  return rows.map((row) => row.name)
}

async function sourceOf(name: string): Promise<string> {
  const { rows } = await db.pool.query<{ source: string }>(
    `select replace(prosrc, '"leasehold".', 'leasehold.') as source from pg_proc where pronamespace = 'leasehold'::regnamespace and proname = $1`,
    [name],
  )
  return rows[0]!.source
}

/** The columns of each `insert into leasehold.<table> (…)`. */
function insertsInto(table: string, sql: string): string[][] {
  return [...sql.matchAll(new RegExp(`insert into leasehold\\.${table} \\(([^)]*)\\)`, 'g'))].map(([, list]) =>
    list!.split(',').map((column) => column.trim()),
  )
}

function without(columns: readonly string[], left: Record<string, string>): string[] {
  for (const name of Object.keys(left)) assert.ok(columns.includes(name), `${name} is no column any more`)
  return columns.filter((column) => !Object.hasOwn(left, column)).sort()
}

const OF_THE_RUN = {
  expires_at: 'the job has started, or the reason says that it expired',
  progress: 'a note for people while the job runs',
  waiting_for: 'the run does not wait any more',
}
const LEFT_OUT_OF_ARCHIVE = {
  ...OF_THE_RUN,
  cancel_requested_at: 'the status says what became of it',
  crashes: 'the job has ended',
  blocked: 'the job has ended',
  key_seq: 'the job has left its key',
  line: 'the job has left its line',
  salt: 'effect keys are for jobs that can run again',
  parent_id: 'the parent was notified',
}
const LEFT_OUT_OF_DEAD_LETTERS = {
  ...OF_THE_RUN,
  blocked: 'blocks_key is whether it is in the way of its key',
  line: 'a redrive asks anew whether the queue is on the ring',
}
const SET_BY_A_CLAIM = {
  lease_generation: 'the first claim sets it',
  claim_id: 'a claim sets it',
  claimed_at: 'a claim sets it',
  attempts: 'a claim counts it',
}
const LEFT_OUT_OF_ENQUEUE = {
  ...SET_BY_A_CLAIM,
  salt: 'random by default',
  crashes: 'the sweep counts it',
  blocked: 'false by default',
  key_seq: 'null in a queue that is neither ordered nor fair',
  line: '0 in a queue that is not on the ring',
  cancel_requested_at: 'cancel sets it',
  cancel_reason: 'cancel sets it',
  progress: 'a running handler sets it',
  parent_id: 'start_child() sets it',
  waiting_for: 'a run that parks sets it',
}

test('a finished job keeps every column, in the archive and in the dead letters', async () => {
  const job = await columnsOf('job')
  const source = await sourceOf('finish')
  for (const [table, leftOut] of [
    ['archive', LEFT_OUT_OF_ARCHIVE],
    ['dead_letter', LEFT_OUT_OF_DEAD_LETTERS],
  ] as const) {
    const lists = insertsInto(table, source)
    assert.ok(lists.length > 0)
    for (const list of lists) assert.deepEqual(list, lists[0], `${table}: the same columns in the same order`)
    assert.deepEqual([...lists[0]!].sort(), (await columnsOf(table)).sort(), `${table}: the list is the table`)
    const missing = without(job, leftOut).filter((column) => !lists[0]!.includes(column))
    assert.deepEqual(missing, [], `${table}: columns of job that are lost`)
    // A column inserted under the name of a job's column has its value.
    for (const column of without(job, leftOut)) {
      if (['claimed_by', 'crashes', 'cancel_reason'].includes(column)) continue
      assert.match(source, new RegExp(`\\be\\.${column}\\b`), `${table}: ${column}`)
    }
  }
})

test('a redriven job keeps every column of its dead letter', async () => {
  const [list] = insertsInto('job', operatorSql.REDRIVE)
  const leftOut = {
    claim_id: '',
    claimed_at: '',
    attempts: '',
    expires_at: '',
    progress: '',
    waiting_for: '',
  }
  const ofRuns = { cancel_requested_at: 'a run is in no key', cancel_reason: 'a run is in no key' }
  const inOrder = without(await columnsOf('job'), { ...leftOut, ...ofRuns })
  const plain = without(await columnsOf('job'), { ...leftOut, key_seq: 'not in a key', blocked: 'not in a key' })
  assert.deepEqual([...list!].sort(), plain)
  const [listInOrder] = insertsInto('job', await sourceOf('redrive_in_order'))
  assert.deepEqual([...listInOrder!].sort(), inOrder)
})

test('each enqueue stores every column that a producer can set', async () => {
  const all = without(await columnsOf('job'), LEFT_OUT_OF_ENQUEUE)
  const plain = all.filter((column) => column !== 'id' && column !== 'idempotency_key')
  const rare = ['expires_at', 'partition_key', 'metadata']
  const lists = {
    'leasehold.enqueue()': insertsInto('job', await sourceOf('enqueue'))[0]!,
    ENQUEUE_KEYED: insertsInto('job', enqueueSql.ENQUEUE_KEYED)[0]!,
    ENQUEUE: insertsInto('job', enqueueSql.ENQUEUE)[0]!,
    ENQUEUE_ALIKE: insertsInto('job', enqueueSql.ENQUEUE_ALIKE)[0]!,
  }
  assert.deepEqual([...lists['leasehold.enqueue()']].sort(), all)
  assert.deepEqual([...lists.ENQUEUE_KEYED].sort(), all)
  const [inOrder] = insertsInto('job', await sourceOf('enqueue_in_order'))
  assert.deepEqual([...inOrder!].sort(), [...all, 'blocked', 'key_seq', 'line'].sort())
  assert.deepEqual([...lists.ENQUEUE].sort(), plain)
  assert.deepEqual(
    [...lists.ENQUEUE_ALIKE].sort(),
    plain.filter((column) => !rare.includes(column)),
    'jobs that are alike',
  )
})

test('the view shows every column of a job, or one derived from it', async () => {
  const view = await columnsOf('jobs')
  const shownAs = {
    claim_id: 'claimed_by and lease_expires_at',
    blocked: 'label',
    key_seq: 'label, and the order of ids within a key',
    cancel_reason: 'reason',
    waiting_for: 'label; leasehold.runs',
    parent_id: 'leasehold.steps has the child',
    line: 'partition_bucket; leasehold.seats',
    salt: 'of no use to a reader',
  }
  assert.deepEqual(
    without(await columnsOf('job'), shownAs).filter((column) => !view.includes(column)),
    [],
  )
})

/** Kept separate for speed (measured), and compared with finish() below. */
const MOVES_ITSELF: readonly string[] = [
  outcomeSql.COMPLETE,
  outcomeSql.COMPLETE_IN_ORDER,
  outcomeSql.COMPLETE_WITHIN,
  outcomeSql.TURN,
  outcomeSql.TURN_IN_ORDER,
]

test('a job leaves leasehold.job through finish(), or by a completion that does the same', async () => {
  const statements = [claimSql, enqueueSql, housekeepingSql, operatorSql, outcomeSql].flatMap((module) =>
    Object.values(module),
  )
  for (const statement of statements.filter((sql) => !MOVES_ITSELF.includes(sql))) {
    assert.doesNotMatch(statement, /delete from leasehold\.job\b/, statement.split('\n')[0])
    assert.doesNotMatch(statement, /insert into leasehold\.(archive|dead_letter)\b/, statement.split('\n')[0])
  }
  const { rows } = await db.pool.query<{ proname: string }>(
    `select proname from pg_proc where pronamespace = 'leasehold'::regnamespace
       and prosrc ~ '(delete from "leasehold"\\.job|insert into "leasehold"\\.(archive|dead_letter))\\M' order by 1`,
  )
  // reserve_pages() deletes rows of its own that were never visible.
  assert.deepEqual(
    rows.map((row) => row.proname),
    ['finish', 'reserve_pages'],
  )
})

test('a completion leaves the same rows as finish(): kept or not, with a key or without', async () => {
  const lane = new Lane(db.pool)
  const worker = newWorker()
  assert.deepEqual(
    insertsInto('archive', outcomeSql.COMPLETE),
    insertsInto('archive', await sourceOf('finish')).slice(0, 1),
    'the same columns in the same order',
  )
  const left = async ({ jobId }: ClaimedJob) => {
    const { rows } = await db.pool.query('select to_jsonb(a) as row from leasehold.archive a where id = $1', [jobId])
    const unfinished = await db.pool.query('select from leasehold.job where id = $1', [jobId])
    return { archived: rows.map(({ row }) => comparable(row)), unfinished: unfinished.rowCount }
  }
  for (const keepMs of [1_000, false] as const) {
    for (const key of [true, false]) {
      const job = async (n: number) => {
        const queue = `compared ${keepMs} ${key} ${n}`
        const options = { priority: 3, maxAttempts: 9, metadata: { m: 1 }, partitionKey: 'order:9182' }
        return claimedBy(lane, worker, queue, { ...options, ...(key ? { idempotencyKey: 'k' } : {}) })
      }
      const [completed, finished, inATurn] = [await job(1), await job(2), await job(3)]
      await complete(lane, worker, [{ ...completed, keepMs, result: { r: 1 } }])
      const request = { claimId: newClaimId(), worker, kinds: ['none'], limit: 1, leaseMs: LEASE_MS }
      await turn(lane, [{ ...inATurn, keepMs, result: { r: 1 } }], request, { queues: ['none'] })
      await db.pool.query(
        "select leasehold.finish('completed', array[$1::bigint], $2, results => array[$3::jsonb], keep_ms => $4)",
        [finished.jobId, worker.id, '{"r": 1}', keepMs === false ? null : [keepMs]],
      )
      const expected = await left(finished)
      const plain = await job(4)
      await db.pool.query(
        "select leasehold.finish('completed', array[$1::bigint], $2, fence => $3, keep_all_ms => $4)",
        [plain.jobId, worker.id, plain.claimId, keepMs === false ? null : keepMs],
      )
      const { archived, ...rest } = await left(plain)
      const withResult = archived.map((row) => ({ ...row, result: { r: 1 } }))
      assert.deepEqual({ ...rest, archived: withResult }, expected, `all alike: keep ${keepMs}, key ${key}`)
      assert.deepEqual(await left(completed), expected, `keep ${keepMs}, key ${key}`)
      assert.deepEqual(await left(inATurn), expected, `in a turn: keep ${keepMs}, key ${key}`)
      assert.deepEqual([expected.archived.length, expected.unfinished], [keepMs !== false || key ? 1 : 0, 0])
    }
  }
})

/** Without the columns that differ between any two jobs; retention as a duration instead of a date. */
function comparable(row: Record<string, string>): Record<string, unknown> {
  const { id, claim_id, claimed_at, created_at, available_at, lease_generation, queue, ...same } = row
  const keptMs = Date.parse(same.forget_at!) - Date.parse(same.finished_at!)
  return { ...same, forget_at: keptMs, finished_at: 'set' }
}

test('every value stays in its own column through every outcome and redrive', async () => {
  const lane = new Lane(db.pool)
  const worker = newWorker()
  const shared = { priority: 3, maxAttempts: 9, metadata: { m: 1 }, expiresAt: new Date('2031-01-01') }
  const rowOf = async (table: string, id: JobId): Promise<Record<string, unknown>> =>
    (await db.pool.query(`select to_jsonb(t) as row from leasehold.${table} t where id = $1`, [id])).rows[0].row
  const ends = {
    archive: (job: ClaimedJob) => complete(lane, worker, [{ ...job, result: { r: 1 } }]),
    dead_letter: (job: ClaimedJob) => settle(lane, worker, [{ ...job, verb: 'bury', error: 'e', reason: 'fatal' }]),
  }
  for (const [table, end] of Object.entries(ends)) {
    const queue = `round trip to ${table}`
    const job = await claimedBy(lane, worker, queue, { ...shared, partitionKey: 'order:9182', idempotencyKey: queue })
    const before = await rowOf('job', job.jobId)
    await end(job)
    const after = await rowOf(table, job.jobId)
    for (const [column, value] of Object.entries(before)) {
      if (Object.hasOwn(after, column)) assert.deepEqual(after[column], value, `${table}.${column}`)
    }
    assert.equal(after.claimed_by, worker.id)
    if (table !== 'dead_letter') continue
    await redrive(lane, [job.jobId])
    const changed = ['available_at', 'attempts', 'claim_id', 'claimed_at', 'expires_at']
    for (const [column, value] of Object.entries(await rowOf('job', job.jobId))) {
      if (!changed.includes(column)) assert.deepEqual(value, before[column], `redriven: ${column}`)
    }
  }
})
