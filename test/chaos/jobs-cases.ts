// Faults in the history of a chaos run of jobs, each with the rule of the checker that must report it.
import type { Cases } from './checker-suite.ts'
import { type Draft, USERS_BUCKET } from './jobs-history.ts'

const of = (w: string) => (line: { readonly w?: string }) => line.w === w
const ofJob = (job: string, outcome?: string) => (line: { readonly job?: string; readonly outcome?: unknown }) =>
  line.job === job && (outcome === undefined || line.outcome === outcome)

export const CASES: Cases<Draft> = {
  'a job is gone': [
    (d) => Object.assign(d, { jobs: d.jobs.filter(({ w }) => w !== 'plain-1') }),
    /^work that was acknowledged has ended: plain-1: it is gone/,
  ],
  'a job is stuck': [
    (d) => Object.assign(d.job('plain-1'), { status: 'processing' }),
    /^work that was acknowledged has ended: plain-1: processing/,
  ],
  'a job that is not kept is gone and was never handled': [
    (d) => d.drop('ended', of('forgotten-16')),
    /^work that was acknowledged has ended: forgotten-16/,
  ],
  'rolled back work has a row': [
    (d) => d.row('in transaction-7', '7', 'completed', 17_300),
    /^work that was rolled back/,
  ],
  'rolled back work runs': [
    (d) => d.say('worker-1.1', 17_300, 'started', { w: 'in transaction-7', job: '7', gen: 17_290 }),
    /^work that was rolled back/,
  ],
  'work becomes two jobs': [(d) => d.row('plain-1', '99', 'completed', 1_500), /^a piece of work is one job: plain-1/],
  'work that leaves no row runs as two jobs': [
    (d) => d.run('worker-1.1', 'forgotten-16', '98', 28_500, 'completed'),
    /^work that leaves no row ran as one job/,
  ],
  'work ends otherwise than its handler says': [
    (d) => Object.assign(d.job('steering-10'), { status: 'completed' }),
    /^work ends as its handler says: steering-10/,
  ],
  'attempts are exhausted too early': [
    (d) => Object.assign(d.job('plain-4'), { attempts: 2 }),
    /^work ends as its handler says: plain-4.*2 of 4/,
  ],
  'a claim is recorded twice': [
    (d) => d.attempt('worker-1.1', '1', 1_500, 'failed', 1_560),
    /^a claim has at most one outcome: job 1/,
  ],
  'a claim is reported twice': [
    (d) => d.say('worker-1.1', 1_570, 'reported', { outcome: 'retrying', job: '1', gen: 1_500 }),
    /^a claim has at most one outcome: job 1/,
  ],
  'a claim is started twice': [
    (d) => d.say('worker-2.2', 1_520, 'started', { w: 'plain-1', job: '1', gen: 1_500 }),
    /^a job is started once for each claim: job 1/,
  ],
  'a generation falls': [
    (d) => Object.assign(d.attempts[0]!, { generation: 1_600 }),
    /^generations of a job rise: job 1/,
  ],
  'the row has an old generation': [
    (d) => Object.assign(d.job('plain-1'), { generation: 1_200 }),
    /^generations of a job rise: job 1.*the row is at 1200/,
  ],
  'a job is claimed while another has it': [
    (d) => Object.assign(d.attempts[0]!, { endedAt: 1_530 }),
    /^no two leases on a job at a time: job 1/,
  ],
  'handlers overlap without a reason': [
    (d) => {
      d.drop('stops')
      d.drop('stopped')
    },
    /^handlers of a job overlap only while one stood still: job 3/,
  ],
  'a live lease is reclaimed': [
    (d) => Object.assign(d.attempts[2]!, { endedAt: 3_000 }),
    /^a lease is reclaimed only when it has expired: job 2/,
  ],
  'a worker in good health loses a lease': [
    (d) => {
      d.drop('stops')
      d.drop('stopped')
    },
    /^only a worker that died, stood still or was cut off loses a lease: job 3/,
  ],
  'more attempts than there are': [
    (d) => Object.assign(d.job('plain-1'), { attempts: 5 }),
    /^attempts stay within their number: job 1/,
  ],
  'completed is reported and not recorded': [
    (d) => Object.assign(d.attempts[1]!, { outcome: 'crashed' }),
    /^what was reported as completed is recorded: job 1/,
  ],
  'retrying is reported and not recorded': [
    (d) => void d.attempts.shift(),
    /^what was reported as retrying is recorded: job 1/,
  ],
  'snoozed is reported and not recorded': [
    (d) => Object.assign(d.attempts.find(({ outcome }) => outcome === 'snoozed')!, { outcome: 'crashed' }),
    /^what was reported as snoozed is recorded: job 11/,
  ],
  'a dead letter is reported, and the job is gone on': [
    (d) => Object.assign(d.job('plain-4'), { status: 'completed' }),
    /^what was reported as dead_letter is recorded: job 4/,
  ],
  'cancelled is reported, and the job is not': [
    (d) => Object.assign(d.job('steering-10'), { status: 'dead_letter' }),
    /^what was reported as cancelled is cancelled: job 10/,
  ],
  'released is reported, and failed is recorded': [
    (d) => Object.assign(d.attempts.find(({ outcome }) => outcome === 'released')!, { outcome: 'failed' }),
    /^what was reported as released or refused has no other outcome: job 14/,
  ],
  'refused is reported, and completed is recorded': [
    (d) => Object.assign(d.attempts.find(({ generation }) => generation === 10_100)!, { outcome: 'completed' }),
    /^what was reported as released or refused has no other outcome: job 3/,
  ],
  'a dead letter is not reported': [
    (d) => d.drop('reported', ofJob('4', 'dead_letter')),
    /^every dead letter was reported: job 4/,
  ],
  'a dead letter of the sweep is not reported': [
    (d) => d.drop('buried', ({ job }) => job === '17'),
    /^every dead letter was reported: job 17/,
  ],
  'a job is reported as buried, and completes': [
    (d) => d.say('worker-1.1', 30_000, 'buried', { job: '2', gen: 0, reason: 'expired' }),
    /^what was reported as buried is a dead letter.*job 2/,
  ],
  'a cancelled job goes on': [
    (d) => Object.assign(d.job('steering-13'), { status: 'completed' }),
    /^a cancelled job is cancelled: job 13/,
  ],
  'a redrive leaves no record': [(d) => void d.actions.shift(), /^a redrive is on record.*job 12/],
  'a paused queue is claimed from': [
    (d) => Object.assign(d.attempts.find(({ generation }) => generation === 26_100)!, { startedAt: 25_000 }),
    /^nothing of a paused queue or kind is claimed: job 14/,
  ],
  'a key is answered with a new job': [
    (d) => Object.assign(d.line('asked again'), { outcome: 'created' }),
    /^a key answers with its one job: keyed-5/,
  ],
  'a key takes another input': [
    (d) => Object.assign(d.line('asked with another input'), { outcome: 'existing' }),
    /^a key answers with its one job: keyed-5/,
  ],
  'a business row has no job': [
    (d) => d.tables.business!.push({ w: 'in transaction-7' }),
    /^a business row and its job.*a row without a job/,
  ],
  'a job has no business row': [
    (d) => void d.tables.business!.pop(),
    /^a business row and its job.*a job without its row/,
  ],
  'complete(tx) without its row': [
    (d) => void d.tables.done!.pop(),
    /^complete\(tx\) is there exactly.*0 business rows/,
  ],
  'complete(tx) with two rows': [
    (d) => d.tables.done!.push(d.tables.done![0]!),
    /^complete\(tx\) is there exactly.*2 business rows/,
  ],
  'complete(tx) under a claim that was over': [
    (d) => Object.assign(d.tables.done![0]!, { generation: '18000' }),
    /^complete\(tx\) is there exactly.*written under 18000/,
  ],
  'an effect happens twice': [
    (d) => d.say('worker-1.1', 19_120, 'effect', { w: 'effects-9', job: '9', gen: 19_100 }),
    /^an effect outside the database.*2 times/,
  ],
  'an effect never happens': [(d) => d.drop('effect'), /^a completed job has had its effects.*0 calls/],
  'an effect in a transaction happens twice': [
    (d) => d.tables.charged!.push(d.tables.charged![0]!),
    /^an effect in a transaction.*2 rows/,
  ],
  'a large input is changed': [
    (d) => d.say('worker-1.1', 27_120, 'wrong', { w: 'large-15', job: '15' }),
    /^a large input arrives as it was sent: large-15/,
  ],
  'an expired job starts': [
    (d) => d.say('worker-1.1', 30_000, 'started', { w: 'expiring-17', job: '17', gen: 29_990 }),
    /^a job that has expired does not start: expiring-17/,
  ],
  'a job of a key starts before an earlier one': [
    (d) =>
      Object.assign(
        d.line('started', ({ w }) => w === 'ordered-20'),
        { at: 32_600 },
      ),
    /^a job of a key starts after all.*: ordered-20/,
  ],
  'an earlier job of a key runs again after a later one': [
    (d) => d.runsAgain('19', 36_000),
    /^a job of a key starts after all.*: ordered-20/,
  ],
  'two jobs of a key overlap': [
    (d) =>
      Object.assign(
        d.line('ended', ({ w }) => w === 'ordered-19'),
        { at: 33_120 },
      ),
    /^no two jobs of a key run at a time: ordered-20/,
  ],
  'on the ring a job of a key starts before an earlier one': [
    (d) =>
      Object.assign(
        d.line('started', ({ w }) => w === 'ring-22'),
        { at: 34_600 },
      ),
    /^on the ring: a job of a key starts after all.*: ring-22/,
  ],
  'on the ring two jobs of a key overlap': [
    (d) =>
      Object.assign(
        d.line('ended', ({ w }) => w === 'ring-21'),
        { at: 35_120 },
      ),
    /^on the ring: no two jobs of a key run at a time: ring-22/,
  ],
  'a worker claims what another owns': [
    (d) =>
      Object.assign(
        d.line('started', ({ w }) => w === 'ring-22'),
        { p: 'worker-2.2' },
      ),
    /^on the ring: a worker claims only what it owns: ring-22/,
  ],
  'a bucket has two owners': [
    (d) => d.say('worker-2.2', 34_000, 'gained', { buckets: [USERS_BUCKET], epoch: 3 }),
    /^on the ring: no bucket has two owners at a time: bucket/,
  ],
  'a bucket has no owner in the end': [
    (d) => d.say('worker-1.1', 50_000, 'lost', { buckets: [USERS_BUCKET], epoch: 3 }),
    /^on the ring: every bucket has an owner when all is calm: 1 buckets/,
  ],
  'jobs of a killed worker are reclaimed late': [
    (d) => Object.assign(d.attempts[2]!, { endedAt: 12_000 }),
    /^jobs of a killed worker are reclaimed within 7.5 s: job 2/,
  ],
  'work is left': [
    (d) => d.say('harness', 60_000, 'stuck', { what: '1 plain pending' }),
    /^all work came to its end in time: 1 plain pending/,
  ],
  'a process does not leave': [
    (d) =>
      Object.assign(
        d.line('end', ({ who }) => who === 'hand-4.4'),
        { tookMs: 90_000 },
      ),
    /^a process that is asked to leave/,
  ],
  'a process leaves with an error': [
    (d) =>
      Object.assign(
        d.line('end', ({ who }) => who === 'hand-4.4'),
        { code: 1 },
      ),
    /^a process that is asked to leave/,
  ],
  'a process ends by itself': [
    (d) =>
      Object.assign(
        d.line('end', ({ who }) => who === 'hand-4.4'),
        { struck: undefined },
      ),
    /^no process ends by itself: hand-4.4/,
  ],
  'connections are left': [
    (d) =>
      Object.assign(
        d.line('sessions', ({ when }) => when === 'after'),
        { count: 3 },
      ),
    /^connections are back to normal: 3 sessions are left/,
  ],
  'connections pile up': [
    (d) =>
      Object.assign(
        d.line('sessions', ({ when }) => when === 'calm'),
        { count: 80 },
      ),
    /^connections are back to normal: 80 sessions/,
  ],
  'memory piles up': [
    (d) => Object.assign(d.line('calm'), { heapMb: 90 }),
    /^memory is back to normal: worker-1.1: 90 MB/,
  ],
}
