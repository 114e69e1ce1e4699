import { createHash } from 'node:crypto'
import type { JobId } from '../queue/job.ts'
import { checkName } from './ledger.ts'

/**
 * A key for a call to somebody else's service, as a UUID (version 8): the same on every attempt, also after a redrive;
 * another for each job and name. Ids begin at 1 in every database, so the moment of the enqueue is part of it.
 */
export function effectKey(jobId: JobId, createdAt: Date, name: string): string {
  const hash = createHash('sha256')
  const bytes = hash
    .update(`${jobId}\n${createdAt.getTime()}\n${checkName(name)}`)
    .digest()
    .subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
