import type { ConcurrentModificationError } from '../core/errors.ts'
import type { DeadLetterReason, Events, WorkerEvents } from './events.ts'
import type { HeldJob } from './job.ts'
import type { Outcome, PendingOutcome, RecordedAs } from './pending-outcome.ts'

/** How many outcomes of each sort were recorded. */
export interface Tally {
  completed: number
  /** Failed attempts that will be tried again. */
  retrying: number
  deadLetters: number
  snoozed: number
  cancelled: number
  released: number
  /** Came too late, and changed nothing. */
  refused: number
  /** Of these, cancelled or snoozed because another writer came first. */
  concurrentModifications: number
}

export function newTally(): Tally {
  return {
    completed: 0,
    retrying: 0,
    deadLetters: 0,
    snoozed: 0,
    cancelled: 0,
    released: 0,
    refused: 0,
    concurrentModifications: 0,
  }
}

/** Counts an outcome, emits its event, and logs it if a person should look. */
export function announceOutcome(events: Events, tally: Tally, report: PendingOutcome, known: RecordedAs): void {
  const { job, outcome } = report
  const { jobId, kind } = job.claimed
  if (job.concurrentModification !== undefined && (known === 'cancelled' || known === 'pending')) {
    announceYield(events, tally, job, job.concurrentModification)
  }
  switch (known) {
    case 'completed':
      tally.completed++
      if (events.hasListeners('completed')) events.emit('completed', job.infoAndTimes)
      break
    case 'cancelled':
      tally.cancelled++
      events.emit('cancelled', { ...job.info, ...job.times })
      break
    case 'pending':
      announceReturned(events, tally, job, outcome)
      break
    case 'dead_letter': {
      const reason = deadLetterReason(report)
      const error = 'error' in outcome && reason !== 'lease_expired' ? outcome.error : undefined
      tally.deadLetters++
      announceDeadLetter(events, { ...job.info, ...job.times, error, reason })
      break
    }
    case 'unrecordable': {
      const message = `no outcome of job ${jobId} (${kind}) can be stored; it is left until its lease ends`
      events.emit('problem', { doing: 'recording outcomes', error: new Error(message) })
      events.logJob('error', message, job.info)
      break
    }
    default: {
      if (known === 'refused') tally.refused++
      events.emit(known, { ...job.info, outcome: outcome.verb })
      const became = known === 'refused' ? 'was refused' : 'left no trace'
      const message = `${outcome.verb} of job ${jobId} (${kind}), generation ${job.claimed.generation}, ${became}`
      events.logJob('warn', message, job.info)
    }
  }
}

function announceYield(events: Events, tally: Tally, job: HeldJob, error: ConcurrentModificationError): void {
  const { jobId, kind } = job.claimed
  tally.concurrentModifications++
  events.emit('concurrent_modification', { ...job.info, ...job.times, error })
  const next = job.handler.onConcurrentModification === 'retry' ? 'retrying' : 'cancelled'
  const message = `job ${jobId} (${kind}) yielded to another writer at ${JSON.stringify(error.site)}; ${next}`
  events.logJob('warn', message, job.info, error, { concurrentModification: true })
}

/** Of every dead letter, whichever path buried it. */
export function announceDeadLetter(events: Events, letter: WorkerEvents['dead_letter'][0]): void {
  const { jobId, kind, reason, error } = letter
  events.emit('dead_letter', letter)
  const message = `job ${jobId} (${kind}) is a dead letter: ${reason}; see its last_error`
  events.logJob('error', message, letter, error)
}

function deadLetterReason({ outcome, leaseExpired }: PendingOutcome): DeadLetterReason {
  if (leaseExpired) return 'lease_expired'
  return outcome.verb === 'bury' ? outcome.reason : 'attempts_exhausted'
}

function announceReturned(events: Events, tally: Tally, job: HeldJob, outcome: Outcome): void {
  if (outcome.verb === 'fail') {
    tally.retrying++
    const { error, delayMs } = outcome
    const { jobId, kind, attempt, maxAttempts } = job.claimed
    events.emit('retrying', { ...job.info, ...job.times, error, delayMs })
    const message = `job ${jobId} (${kind}) failed, attempt ${attempt} of ${maxAttempts}; again in ${Math.round(delayMs)} ms`
    events.logJob('warn', message, job.info, error)
  } else if (outcome.verb === 'snooze') {
    tally.snoozed++
    events.emit('snoozed', { ...job.info, ...job.times, delayMs: outcome.delayMs })
  } else {
    tally.released++
    events.emit('released', { ...job.info, ...job.times })
  }
}
