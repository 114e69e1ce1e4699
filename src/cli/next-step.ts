/** What `why` suggests: a command, or what to do where none helps. */
import { shellOption } from '../inspect/trouble.ts'
import type { Why } from '../inspect/why.ts'

/** Undefined: nothing is to be done. */
export function nextStep(answer: Why): string | undefined {
  switch (answer.because) {
    case 'dead_letter':
      if (answer.reason === 'effect_unknown')
        return `leasehold settle ${answer.jobId} <effect>; leasehold show ${answer.jobId} lists its effects`
      return `leasehold retry ${answer.jobId}, when its cause is fixed`
    case 'paused':
      return `leasehold resume ${shellOption(answer.what, answer.name)}`
    case 'key_blocked':
      return `leasehold why ${answer.by}`
    case 'no_handler':
      return 'start a worker with a handler for it; leasehold workers lists those that run'
    case 'no_owner':
      return `start a worker of queue ${answer.queue}, or take the queue off the ring; ${workersOf(answer.queue)} lists those that run, and their seats`
    case 'owner_lacks_handler':
      return `deploy worker ${answer.worker} with a handler for it, or stop it; ${workersOf(answer.queue)} lists the kinds and seats of all`
    case 'lease_expired':
    case 'expired':
      return 'leasehold workers'
    default:
      return undefined
  }
}

function workersOf(queue: string): string {
  return `leasehold workers ${shellOption('queue', queue)}`
}
