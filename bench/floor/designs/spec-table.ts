/** The specification's table, completed in place or moved to an archive. */
import type { Client } from 'pg'
import { Lane } from '../../../src/db/lane.ts'
import type { ClaimId, JobId, Lease } from '../../../src/jobs/job.ts'
import type { BenchWorker, Design } from './design.ts'
import {
  ARCHIVE,
  CLAIM,
  COMPLETE,
  COUNT,
  COUNT_ARCHIVED,
  CREATE_ARCHIVE,
  CREATE_INDEXES,
  CREATE_TABLE,
  ENQUEUE,
} from './spec-table.sql.ts'

const TYPE = 'bench'

export const specTable: Design = {
  ...shared(COMPLETE, COUNT),
  name: 'spec-table',
  updatesPerJob: 2,
  setup: (db) => runAll(db, [CREATE_TABLE, ...CREATE_INDEXES]),
}

export const specTableArchived: Design = {
  ...shared(ARCHIVE, COUNT_ARCHIVED),
  name: 'spec-table-archived',
  updatesPerJob: 1,
  setup: (db) => runAll(db, [CREATE_TABLE, ...CREATE_INDEXES, ...CREATE_ARCHIVE]),
}

function shared(finish: string, count: string): Omit<Design, 'name' | 'updatesPerJob' | 'setup'> {
  return {
    table: 'inbox',
    keepsFinished: true,
    producer: (db) => {
      const lane = new Lane(db)
      return async (inputs) => {
        await lane.run(ENQUEUE, [
          inputs.map(() => TYPE),
          inputs.map(() => TYPE),
          inputs.map((input) => JSON.stringify(input)),
          numbers(inputs.map(() => 5)),
          numbers(inputs.map(() => Math.floor(Math.random() * 1024))),
        ])
      }
    },
    worker: (db) => specWorker(new Lane(db), finish),
    count: async (db) => {
      const [row] = await new Lane(db).run<'unfinished' | 'finished'>(count, [])
      return { unfinished: Number(row!.unfinished), finished: Number(row!.finished) }
    },
  }
}

function specWorker(lane: Lane, finish: string): BenchWorker {
  return {
    claim: async (limit) => {
      const rows = await lane.run(CLAIM, [`bench:${process.pid}`, limit, [TYPE]])
      // As much work per row as the shipped claim does, though only two columns are used here.
      return rows.map((row) => ({
        jobId: row.id as JobId,
        claimId: '0' as ClaimId,
        generation: Number(row.lease_generation),
        attempt: Number(row.attempts),
        maxAttempts: Number(row.max_attempts),
        queue: row.queue,
        kind: row.type,
        payload: row.payload,
        priority: Number(row.priority),
        availableAt: row.available_at,
        createdAt: row.created_at,
        payloadVersion: Number(row.payload_version),
        partitionKey: row.partition_key,
      }))
    },
    complete: async (leases: readonly Lease[]) => {
      const fences = [leases.map((lease) => lease.jobId), leases.map((lease) => lease.generation)]
      const rows = await lane.run(finish, fences.map(numbers))
      if (rows.length !== leases.length) throw new Error(`${leases.length - rows.length} completions were refused`)
      return 0
    },
  }
}

async function runAll(db: Client, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await db.query(statement)
}

function numbers(values: readonly (number | string)[]): string {
  return `{${values.join(',')}}`
}
