// Every statement that runs often, with arguments of the size it meets in production.

import * as savepointSql from '../../src/db/savepoint.sql.ts'
import * as effectSql from '../../src/effects/effect.sql.ts'
import * as leaseSql from '../../src/effects/lease.sql.ts'
import * as inboxSql from '../../src/inbox/inbox.sql.ts'
import * as claimSql from '../../src/jobs/claim.sql.ts'
import * as configurationSql from '../../src/jobs/configuration.sql.ts'
import * as enqueueSql from '../../src/jobs/enqueue.sql.ts'
import * as housekeepingSql from '../../src/jobs/housekeeping.sql.ts'
import * as operatorSql from '../../src/jobs/operator.sql.ts'
import * as orderSql from '../../src/jobs/order.sql.ts'
import * as outcomeSql from '../../src/jobs/outcome.sql.ts'
import * as pauseSql from '../../src/jobs/pause.sql.ts'
import * as registrySql from '../../src/jobs/registry.sql.ts'
import * as wakeSql from '../../src/jobs/wake.sql.ts'
import * as outboxSql from '../../src/outbox/outbox.sql.ts'
import * as reconcileSql from '../../src/outbox/reconcile.sql.ts'
import * as dutySql from '../../src/runtime/duty.sql.ts'
import * as fencedSql from '../../src/tables/fenced-table.sql.ts'
import * as depthSql from '../../src/telemetry/queue-depths.sql.ts'
import * as runSql from '../../src/workflow/inspect.sql.ts'
import * as stepSql from '../../src/workflow/step.sql.ts'

export const BATCH = 500
const WORKER = "'6e4b6e1c-9d1c-4c8c-8f0e-0d7f4f3f0a11'"

export interface Hot {
  readonly sql: string
  /** SQL literals, in the order of the parameters. */
  readonly args: readonly string[]
}

function repeated(value: string, type: string, count = BATCH): string {
  return `array_fill(${value}::${type}, array[${count}])`
}

/** Ids of jobs that exist and are claimed: the million-row table's first five hundred. */
const IDS = `array(select generate_series(1, ${BATCH}))::bigint[]`
const CLAIM_IDS = repeated('1', 'bigint')
const NULLS = repeated('null', 'text')
const RUN = `'00000000-0000-0000-0000-000000000000'::uuid`

const newJobs = (count: number) => [
  repeated("'plan'", 'text', count),
  repeated("'plan'", 'text', count),
  repeated(`'{"a": 1}'`, 'text', count),
  repeated('5', 'smallint', count),
  repeated('5', 'smallint', count),
  repeated('7', 'smallint', count),
  repeated('0', 'float8', count),
  repeated('null', 'jsonb', count),
]
const claimBy = ['999999', WORKER, '30000', String(BATCH), "array['plan']"]
const allPriorities = (queue: string) => [
  repeated(`'${queue}'`, 'text', 10),
  'array(select generate_series(0, 9))::smallint[]',
  repeated("'-infinity'", 'timestamptz', 10),
  repeated('0', 'bigint', 10),
]

const COMPLETIONS = [IDS, CLAIM_IDS, repeated('null', 'jsonb'), repeated('1000', 'float8'), WORKER]
/** The claim of a turn. */
const TURN_CLAIM = [
  '999999',
  '30000',
  String(BATCH),
  "array['plan']",
  ...allPriorities('plan'),
  'null',
  'null',
  String(BATCH),
  '1',
  'null',
]

/** Functions, whose plans lie inside. */
export const CLAIMS: Record<string, string> = {
  'the claim': `select * from leasehold.claim(${[...claimBy, ...allPriorities('plan')].join(', ')})`,
  'a look': `select * from leasehold.claim(${[...claimBy, "array['plan']"].join(', ')})`,
  'a slice of a look': `select * from leasehold.claim(${[...claimBy, "array['plan']", 'older_ms => 1000', 'younger_ms => 1e9'].join(', ')})`,
  'the claim from a mark': `select * from leasehold.claim(${[...claimBy, "array['plan']", 'array[5]::smallint[]', "array[now() - interval '1 minute']", 'array[600]::bigint[]'].join(', ')})`,
  'the claim from lines': `select * from leasehold.claim(${[...claimBy, ...allPriorities('plan'), 'lines => array(select generate_series(0, 9))::smallint[]'].join(', ')})`,
  'a look at lines': `select * from leasehold.claim(${[...claimBy, "array_fill('plan'::text, array[128])", 'lines => array(select generate_series(0, 127))::smallint[]'].join(', ')})`,
  'the claim of suspects of some buckets': `select * from leasehold.claim(${[...claimBy, ...allPriorities('plan'), '1::smallint', '1::smallint', `buckets => array_fill(decode(repeat('0f', 128), 'hex'), array[10])`].join(', ')})`,
  'the claim of suspects': `select * from leasehold.claim(${[...claimBy, ...allPriorities('plan'), '1::smallint', '1::smallint'].join(', ')})`,
}

const finish = (status: string, more: string) =>
  `select * from leasehold.finish('${status}', ${IDS}, ${WORKER}, ${more})`

/** Called with rows that their statements have locked. */
export const FINISHES: Record<string, string> = {
  'completed and kept': finish(
    'completed',
    `results => ${repeated("'1'", 'jsonb')}, keep_ms => ${repeated('1', 'float8')}`,
  ),
  'completed and not kept': finish('completed', 'keep_ms => null'),
  'completed and not kept, by claim': finish('completed', 'fence => 1'),
  'completed and kept, by claim': finish('completed', 'fence => 1, keep_all_ms => 1000'),
  cancelled: finish('cancelled', repeated("'why'", 'text')),
  'dead letters': finish('dead_letter', repeated("'fatal'", 'text')),
}

export const HOT: Record<string, Hot> = {
  ENQUEUE: { sql: enqueueSql.ENQUEUE, args: newJobs(BATCH) },
  ENQUEUE_ALIKE: {
    sql: enqueueSql.ENQUEUE_ALIKE,
    args: [
      "'plan'",
      "'plan'",
      `(select jsonb_agg(n) from generate_series(1, ${BATCH}) n)`,
      '5',
      '5',
      repeated('7', 'smallint'),
      '0',
    ],
  },
  ENQUEUE_KEYED: {
    sql: enqueueSql.ENQUEUE_KEYED,
    args: [...newJobs(BATCH), `array(select 'k' || n from generate_series(1, ${BATCH}) n)`, repeated('1000', 'float8')],
  },
  FIND_KEYED: {
    sql: enqueueSql.FIND_KEYED,
    args: [
      repeated("'plan'", 'text'),
      `array(select 'k' || n from generate_series(1, ${BATCH}) n)`,
      repeated("'1'", 'text'),
    ],
  },
  RENEW: { sql: claimSql.RENEW, args: ['array[1, 2, 3]::bigint[]', WORKER, '30000'] },
  COMPLETE: { sql: outcomeSql.COMPLETE, args: COMPLETIONS },
  COMPLETE_IN_ORDER: { sql: outcomeSql.COMPLETE_IN_ORDER, args: [...COMPLETIONS, 'null'] },
  COMPLETE_WITHIN: { sql: outcomeSql.COMPLETE_WITHIN, args: [...COMPLETIONS, 'null'] },
  TURN: { sql: outcomeSql.TURN, args: [...COMPLETIONS, ...TURN_CLAIM] },
  TURN_IN_ORDER: { sql: outcomeSql.TURN_IN_ORDER, args: [...COMPLETIONS, 'null', ...TURN_CLAIM] },
  SETTLE: {
    sql: outcomeSql.SETTLE,
    args: [
      IDS,
      CLAIM_IDS,
      repeated("'fail'", 'text'),
      repeated('1', 'float8'),
      repeated('null', 'jsonb'),
      NULLS,
      WORKER,
      repeated('null', 'jsonb'),
    ],
  },
  RECORD_STEPS: {
    sql: stepSql.RECORD,
    args: [
      IDS,
      CLAIM_IDS,
      repeated('1', 'integer'),
      repeated('1', 'integer'),
      repeated("'charge'", 'text'),
      repeated('1', 'integer'),
      repeated("'step'", 'text'),
      repeated("'recorded'", 'text'),
      repeated('1', 'smallint'),
      repeated("'1'", 'jsonb'),
      repeated('null', 'jsonb'),
      repeated('null', 'float8'),
      repeated('1', 'bigint'),
      repeated('1', 'float8'),
      WORKER,
    ],
  },
  LOAD_RUNS: { sql: stepSql.LOAD, args: [IDS, CLAIM_IDS] },
  RECEIVE: { sql: stepSql.RECEIVE, args: [IDS, CLAIM_IDS, repeated("'go'", 'text')] },
  HOLD_RUN: { sql: stepSql.HOLD_RUN, args: ['1', '1'] },
  PROGRESS: { sql: outcomeSql.PROGRESS, args: ['1', '1', "'1'"] },
  HOLD: { sql: outcomeSql.HOLD, args: ['1', '1'] },
  CANCEL_REQUESTS: { sql: outcomeSql.CANCEL_REQUESTS, args: [IDS, CLAIM_IDS] },
  CANCEL: { sql: operatorSql.CANCEL, args: [IDS, "'ada'", "'why'"] },
  REDRIVE: { sql: operatorSql.REDRIVE, args: [IDS, "'ada'"] },
  CLOSE: { sql: claimSql.CLOSE, args: ['array[1, 2, 3]::bigint[]', WORKER] },
  COUNT_SUSPECTS: { sql: claimSql.COUNT_SUSPECTS, args: ["array['plan']", "array['plan']", '1000', 'null'] },
  BEGIN_EFFECT: { sql: effectSql.BEGIN, args: ['1', '1', "'new'", RUN] },
  TAKE_OVER: { sql: effectSql.TAKE_OVER, args: ['1', '1', "'a'", RUN, RUN] },
  DONE: { sql: effectSql.DONE, args: ['1', '1', "'a'", RUN, "'1'"] },
  NOT_DONE: { sql: effectSql.NOT_DONE, args: ['1', "'a'", RUN] },
  SETTLE_EFFECT: { sql: effectSql.SETTLE_EFFECT, args: ['1', "'a'", 'true', "'1'", "'ada'"] },
  ASSERT_LEASE: { sql: leaseSql.ASSERT_LEASE, args: ['1', '1'] },
  RELEASE_CLAIM: { sql: claimSql.RELEASE_CLAIM, args: ['1', WORKER] },
}

/** Statements that run now and then: their plans must hold for full tables, and need not for nearly empty ones. */
export const NOW_AND_THEN: Record<string, Hot> = {
  SWEEP: { sql: housekeepingSql.SWEEP, args: ['1', '20000', 'true'] },
  BURIED: { sql: housekeepingSql.BURIED, args: [IDS] },
  RECORDED: { sql: outcomeSql.RECORDED, args: [IDS, CLAIM_IDS] },
  EXPIRE: { sql: housekeepingSql.EXPIRE, args: [String(BATCH)] },
  PRUNE_DEAD_LETTERS: { sql: housekeepingSql.PRUNE_DEAD_LETTERS, args: ['0', String(BATCH)] },
  PRUNE_KEYS: { sql: housekeepingSql.PRUNE_KEYS, args: [String(BATCH)] },
  PRUNE_INBOX: { sql: inboxSql.PRUNE_INBOX, args: [String(BATCH)] },
  PRUNE_EFFECTS: { sql: effectSql.PRUNE_EFFECTS, args: ['0', String(BATCH), '0'] },
}

/** Statements over tables that are usually empty, that only call a function, or that only a person sends. */
export const COLD = [
  claimSql.CLAIM, // see CLAIMS
  inboxSql.RECEIVE, // an insert, and for a duplicate two looks by the primary key
  enqueueSql.ENQUEUE_IN_ORDER, // functions
  enqueueSql.ENQUEUE_ALIKE_IN_ORDER,
  housekeepingSql.LOOK_BEFORE_SWEEP, // one row
  outcomeSql.COMPLETE_MANY, // see FINISHES
  outcomeSql.FORGIVE,
  outcomeSql.BE_IN_A_TRANSACTION,
  ...Object.values(savepointSql), // no plan
  operatorSql.FIND_DEAD_LETTERS, // sent by a person, who may wait for a walk by age
  effectSql.LIST_EFFECTS, // sent by a person, sorts the effects of one job
  ...Object.values(fencedSql), // the caller's own table
  housekeepingSql.POSTPONE_CLAIM, // when a claim cannot be swept
  housekeepingSql.BURIED_LATELY, // after a lost reply: the dead letters of some seconds, by their age
  housekeepingSql.PRUNE_DEFAULT_ARCHIVE,
  housekeepingSql.PRUNE_DEFAULT_ATTEMPTS,
  housekeepingSql.MAKE_PARTITIONS,
  housekeepingSql.DROP_PARTITIONS,
  housekeepingSql.MAKE_PARTITIONS_AHEAD,
  housekeepingSql.DROP_PARTITIONS_PAST,
  housekeepingSql.RESERVE_PAGES,
  ...Object.values(dutySql), // a table of four rows
  ...Object.values(wakeSql), // a row per queue, or a function
  stepSql.START_CHILD, // functions; their plans: test/workflow/plans.test.ts
  stepSql.SIGNAL,
  stepSql.CHILDREN, // when a run is cancelled
  ...Object.values(runSql), // sent by a person
  outboxSql.PUBLISH, // a function; its plans and that of LOAD_EVENTS: test/outbox/plans.test.ts
  outboxSql.LOAD_EVENTS,
  outboxSql.STORE_DESTINATIONS, // a row per destination, sent by a deploy
  outboxSql.REMOVE_DESTINATION,
  outboxSql.READ_DESTINATIONS,
  outboxSql.READ_LAG, // sent by a person, and counts all that is unsent
  outboxSql.REPLAY, // sent by a person
  outboxSql.NOTE_REPLAY,
  inboxSql.READ_RECEIPTS, // by a report; test/outbox/plans.test.ts
  ...Object.values(reconcileSql), // by a report; test/outbox/plans.test.ts
  ...Object.values(configurationSql), // a row per queue and kind, sent by a deploy and by a worker that starts
  ...Object.values(orderSql), // sent by a person, and by one worker every ten seconds
  ...Object.values(pauseSql), // the same rows, of which those that are paused have an index of their own
  ...Object.values(depthSql), // by a scrape; test/telemetry/plans.test.ts
  ...Object.values(registrySql), // a row per worker process: test/plans/fleet.test.ts; pruned by a scan
]

export const ALL = [
  claimSql,
  configurationSql,
  depthSql,
  dutySql,
  effectSql,
  fencedSql,
  leaseSql,
  inboxSql,
  enqueueSql,
  housekeepingSql,
  operatorSql,
  orderSql,
  outboxSql,
  outcomeSql,
  pauseSql,
  reconcileSql,
  registrySql,
  runSql,
  stepSql,
  wakeSql,
].flatMap((module) => Object.values(module))
