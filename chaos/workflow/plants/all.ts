/** Bugs that can be planted, to check that the checker detects them. */
import { inFunction, trigger } from '../../common/plant-sql.ts'
import type { Plant } from './plant.ts'

export const PLANTS: Readonly<Record<string, Plant>> = {
  'record-without-fence': {
    what: 'a worker records steps of a run that another one has',
    breaks: /one worker at a time/,
    faults: ['hold step.record'],
    rewrite: [
      {
        statement: /^-- step\.record/,
        from: /where job\.id = i\.job_id and job\.claim_id = i\.claim_id/,
        to: 'where job.id = i.job_id',
      },
    ],
  },
  'noticed-while-held': {
    what: 'a signal for a run that is about to park is marked as noticed',
    breaks: /came to its end/,
    faults: ['SIGTERM worker'],
    // A run takes its time to park, so that signals come meanwhile.
    sql: `${inFunction('leasehold.wake_signalled', 's.job_id = any (free) or', 'true or')};
      ${trigger(
        'leasehold.job',
        'before update',
        `if cardinality(new.waiting_for) > 0 and old.claim_id is not null then perform pg_sleep(0.15); end if; return new;`,
      )}`,
  },
  'unwoken-run': {
    what: 'a signal wakes no run',
    breaks: /came to its end/,
    faults: ['SIGTERM worker'],
    sql: inFunction('leasehold.wake_signalled', 'where job.id = any (free) and exists', 'where false and exists'),
  },
  'replay-without-nth': {
    what: 'a run that resumes finds the last of all steps of a name',
    breaks: /on record does not execute again/,
    faults: ['SIGKILL worker'],
    rewrite: [{ statement: /^-- step\.load/, from: /s\.place, s\.name, s\.nth,/, to: 's.place, s.name, 1,' }],
  },
  'consumed-at-load': {
    what: 'a signal is consumed before the step that receives it is recorded',
    breaks: /signal is received once/,
    faults: ['SIGKILL worker'],
    rewrite: [
      {
        statement: /^-- step\.load/,
        from: /with run as materialized/,
        to: `with eaten as (
          update leasehold.signal set consumed = true where job_id = any ((select $1::bigint[])::bigint[]) and not consumed
        ), run as materialized`,
      },
    ],
  },
  'recorded-before-work': {
    what: 'a step is recorded before its work is done',
    breaks: /execution that had ended/,
    faults: ['SIGKILL worker'],
    run: 'records before the work',
  },
  'tx-apart-from-record': {
    what: 'the writes of a tx step commit before its record',
    breaks: /tx step happens once/,
    faults: ['cut reply of commit of a tx step', 'SIGKILL worker'],
    run: 'commits apart from the record',
  },
  'parent-not-notified': {
    what: 'a job that ends does not notify the run that waits for it',
    breaks: /came to its end/,
    faults: ['SIGTERM worker'],
    sql: inFunction('leasehold.notify_parent', `and s.state = 'waiting'`, `and s.state = 'waiting' and false`),
  },
  'undone-forwards': {
    what: 'compensations run in the order of their steps',
    breaks: /reverse order/,
    faults: ['SIGTERM worker'],
    run: 'undoes forwards',
  },
  'undone-again': {
    what: 'a run that resumes does not find the compensations on record',
    breaks: /on record does not execute again/,
    faults: ['SIGTERM worker'],
    rewrite: [
      {
        statement: /^-- step\.load/,
        from: /and step\.salt = run\.salt limit/,
        to: `and step.salt = run.salt and step.type <> 'compensation' limit`,
      },
    ],
  },
  'cancelled-like-a-job': {
    what: 'a run that is cancelled is not undone',
    breaks: /reverse order/,
    faults: ['SIGTERM worker'],
    sql: `create or replace function leasehold.has_begun(job_id bigint) returns boolean language sql stable parallel safe return false`,
  },
  'winner-ignored': {
    what: 'a run takes its signal for the first of two waits, whatever is on record',
    breaks: /first of several stays/,
    faults: ['SIGTERM worker'],
    run: 'ignores the winner',
  },
  'short-sleep': {
    what: 'a sleep on record ends after half its time',
    breaks: /sleep ends/,
    faults: ['SIGTERM worker'],
    rewrite: [
      {
        statement: /^-- step\.load/,
        from: /extract\(epoch from s\.wake_at - \S+clock\(\)\)/,
        to: 'extract(epoch from s.wake_at - (s.wake_at - s.recorded_at) / 2 - leasehold.clock())',
      },
      {
        statement: /^-- job\.settle/,
        from: /i\.delay_ms \* interval '1 ms'/,
        to: `i.delay_ms * interval '0.4 ms'`,
      },
    ],
  },
  'key-ignored': {
    what: 'a second signal with the same idempotency key is stored',
    breaks: /sent with a known key/,
    faults: ['SIGTERM worker'],
    sql: 'drop index leasehold.signal_once',
  },
  'committed-rollback': {
    what: 'a start that is rolled back leaves a run',
    breaks: /rolled back leaves no run/,
    faults: ['SIGKILL starter'],
    // Without the starter's own note of what committed.
    rewrite: [
      {
        statement: /^rollback$/,
        from: /rollback/,
        to: 'delete from chaos.started where xmin = pg_current_xact_id()::xid; commit',
      },
    ],
  },
  'child-started-twice': {
    what: 'a run whose reply was lost starts its job again',
    breaks: /started once/,
    faults: ['cut reply of step.start_child'],
    // Neither does the key of the table prevent it.
    sql: `${inFunction('leasehold.start_child', 'and s.place = at_place and', 'and s.place = at_place and false and')};
      ${inFunction('leasehold.start_child', `'job', step_name);`, `'job', step_name) on conflict do nothing;`)}`,
  },
}
