/** Bugs that can be planted, to check that the checker detects them. */
import { inFunction, trigger } from '../../common/plant-sql.ts'
import type { Plant } from './plant.ts'

const KILLS = ['SIGKILL worker', 'SIGSTOP worker']

export const PLANTS: Readonly<Record<string, Plant>> = {
  'unfenced-claim': {
    what: 'a claim also takes jobs that another worker has',
    breaks: /overlap only while|leases on a job at a time|one outcome/,
    faults: KILLS,
    sql: inFunction('leasehold.claim', 'and job.claim_id is null', ''),
  },
  'unfenced-complete': {
    what: 'a completion does not look at the claim',
    breaks: /reported as completed is recorded/,
    faults: ['SIGSTOP worker'],
    faultMs: [2_600, 3_600],
    // So long that it ends while its worker stands still, and runs elsewhere when that worker goes on.
    handlerMs: 1_200,
    stepsPerSecond: 30,
    rewrite: [
      {
        statement: /^-- job\.(complete|turn)\n/,
        from: /claim_id = (\(\$2.*\])/,
        to: '$1 is not null',
      },
    ],
  },
  'incomplete-complete': {
    what: 'a completion is reported for jobs that it does not end',
    breaks: /reported as completed is recorded/,
    faults: KILLS,
    rewrite: [
      {
        statement: /^-- job\.(complete|turn)\n/,
        from: /(for update skip locked\s+\)\))([\s\S]*?)array_agg\(id\)/,
        to: '$1 and id % 10 > 0$2coalesce(max($$1::bigint[]), $$1::bigint[])',
      },
    ],
  },
  'lost-archive': {
    what: 'some completed jobs are not archived',
    breaks: /acknowledged has ended/,
    faults: KILLS,
    sql: trigger('leasehold.archive', 'before insert', 'if new.id % 20 = 0 then return null; end if; return new;'),
  },
  'same-generation': {
    what: 'a claim does not raise the generation',
    breaks: /generations of a job rise|started once for each claim/,
    faults: KILLS,
    sql: inFunction(
      'leasehold.claim',
      'greatest(job.lease_generation + 1, generation_floor)',
      'greatest(job.lease_generation, job.attempts + 1)',
    ),
  },
  'early-sweep': {
    what: 'the sweep takes claims that have not expired',
    breaks: /reclaimed only when it has expired|loses a lease/,
    faults: ['SIGTERM worker'],
    rewrite: [
      {
        statement: /^-- claim\.sweep\n/,
        from: /where expires_at <= "leasehold"\.clock\(\) and expires_at <= \(/,
        to: `where expires_at <= "leasehold".clock() + interval '1900 ms' and expires_at <= interval '1900 ms' + (`,
      },
      // It checks for expired leases before it sweeps.
      {
        statement: /^-- sweep\.look\n/,
        from: /where expires_at <= "leasehold"\.clock\(\)/,
        to: `where expires_at <= "leasehold".clock() + interval '1900 ms'`,
      },
    ],
  },
  'no-sweep': {
    what: 'the sweep finds nothing',
    breaks: /came to its end in time/,
    faults: KILLS,
    rewrite: [
      { statement: /^-- claim\.sweep\n/, from: /where expires_at <= "leasehold"\.clock\(\)/, to: 'where false' },
    ],
  },
  'forgotten-keys': {
    what: 'some idempotency keys are not found again',
    breaks: /a key answers with its one job|a piece of work is one job/,
    faults: ['cut reply of enqueue', 'SIGKILL producer'],
    sql: trigger(
      'leasehold.idempotency_key',
      'before insert',
      `if new.job_id % 3 = 0 then new.key := new.key || ' of ' || new.job_id; end if; return new;`,
    ),
  },
  'committed-rollback': {
    what: 'what a producer rolls back is committed',
    breaks: /rolled back or refused never appears/,
    faults: ['SIGKILL producer'],
    rewrite: [{ statement: /^rollback$/, from: /rollback/, to: 'commit' }],
  },
  'unrecorded-failure': {
    what: 'some failed attempts are reported and not recorded',
    breaks: /reported as retrying is recorded/,
    faults: KILLS,
    sql: trigger(
      'leasehold.job_attempt',
      'before insert',
      `if new.outcome = 'failed' and new.job_id % 4 = 0 then return null; end if; return new;`,
    ),
  },
  'forgotten-effects': {
    what: 'once() forgets what it has done',
    breaks: /outside the database happens at most once|in a transaction happens at most once/,
    faults: ['SIGKILL worker'],
    repeated: 'delete from leasehold.effect where finished_at is not null',
  },
  'double-redrive': {
    what: 'a redrive makes two jobs of a dead letter',
    breaks: /a piece of work is one job/,
    faults: ['redrive'],
    sql: trigger(
      'leasehold.dead_letter',
      'after delete',
      `insert into leasehold.job (available_at, created_at, max_attempts, partition_bucket, queue, kind, payload)
       values (now(), now(), old.max_attempts, 0, old.queue, old.kind, old.payload); return null;`,
    ),
  },
  'lost-release': {
    what: 'a job that is released with its attempt is gone',
    breaks: /acknowledged has ended/,
    faults: ['rolling restart'],
    sql: trigger(
      'leasehold.job',
      'after update',
      `if old.claim_id is not null and new.claim_id is null and new.attempts < old.attempts then
         delete from leasehold.job where id = new.id;
       end if; return null;`,
    ),
  },
  'silent-burial': {
    what: 'jobs are buried, and no event is emitted',
    breaks: /every dead letter was reported/,
    faults: ['SIGKILL worker'],
    repeated: `select leasehold.finish('dead_letter', array_agg(id), null, array_agg('fatal'::text)) from (
      select id from leasehold.job where claim_id is null and kind = 'plain' and max_attempts > 0 limit 1 for update skip locked
    ) as chosen having count(*) > 0`,
  },
  'silent-sweep': {
    what: 'what a sweep or expiry buries is not announced',
    breaks: /every dead letter was reported/,
    faults: ['SIGKILL worker'],
    rewrite: [{ statement: /^-- dead_letter\.buried/, from: /^where /m, to: 'where false and ' }],
  },
  'double-business-row': {
    what: 'the business row of complete(tx) is written twice',
    breaks: /complete\(tx\) is there exactly/,
    faults: ['SIGKILL worker'],
    sql: trigger(
      'chaos.done',
      'after insert',
      `if pg_trigger_depth() = 1 and new.job % 10 = 0 then insert into chaos.done values (new.w, new.job, new.generation); end if;
       return null;`,
    ),
  },
  'ignored-pause': {
    what: 'a claim does not look at pauses',
    breaks: /paused queue or kind is claimed/,
    faults: ['pause'],
    sql: inFunction('leasehold.claim', 'exists (select from "leasehold".pause)', 'false'),
  },
  'changed-input': {
    what: 'a large input loses its last byte',
    breaks: /large input arrives/,
    faults: ['SIGKILL worker'],
    sql: trigger(
      'leasehold.job',
      'before insert',
      `if new.kind = 'large' then
         new.payload := jsonb_set(new.payload, '{text}', to_jsonb(left(new.payload ->> 'text', -1)));
       end if; return new;`,
    ),
  },
  'no-sibling-processing': {
    what: 'a job is blocked only while another of its key runs',
    breaks: /no two jobs of a key|job of a key starts after/,
    faults: KILLS,
    sql: trigger(
      'leasehold.job',
      'before insert',
      `if new.key_seq is not null then
         new.blocked := exists (select from leasehold.job j where j.queue = new.queue
           and j.partition_key = new.partition_key and j.claim_id is not null);
       end if; return new;`,
    ),
  },
  'early-sequence': {
    what: 'a place in a key is drawn before the key is locked, some at a time',
    breaks: /job of a key starts after|acknowledged has ended/,
    faults: ['pause'],
    handlerMs: 150,
    sql: 'alter sequence leasehold.job_id cache 100',
  },
  'eager-gainer': {
    what: 'a worker takes what it gains before the loser has acknowledged',
    breaks: /no bucket has two owners/,
    faults: ['SIGTERM worker'],
    // Losers learn of an epoch by their next beat, as they do where LISTEN is not available.
    sql: [
      inFunction('leasehold.ring_beat', 's.worker_id <> of_worker and s.epoch < latest.number', 'false'),
      inFunction('leasehold.ring_beat', `tell('ring', 'changed')`, `tell('nothing', 'changed')`),
    ].join(';\n'),
  },
  'join-order-map': {
    what: 'a worker computes the map from the seats that were taken before its own',
    breaks: /no bucket has two owners/,
    faults: ['SIGTERM worker'],
    sql: inFunction(
      'leasehold.ring_beat',
      "'seats', e.seats, 'strategies', e.strategies",
      `'seats', (select jsonb_agg(x) from jsonb_array_elements(e.seats) as x where (x ->> 'number')::int <= mine),
        'strategies', e.strategies`,
    ),
  },
  'immortal-seats': {
    what: 'seats of dead workers do not expire',
    breaks: /every bucket has an owner/,
    faults: ['SIGKILL worker'],
    sql: inFunction('leasehold.ring_beat', 's.expires_at <= "leasehold".clock()', 'false'),
  },
  'leaked-connections': {
    what: 'a worker opens connections and never closes them',
    breaks: /connections are back/,
    faults: ['cut connections'],
    leaks: 'connections',
  },
  'leaked-memory': {
    what: 'a worker keeps what it should drop',
    breaks: /memory is back/,
    faults: ['SIGKILL producer'],
    leaks: 'memory',
  },
}
