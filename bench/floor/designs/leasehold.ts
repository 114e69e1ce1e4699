/** The storage that ships: its migrations, its statements and its cursors. The variants change one thing each. */
import { randomUUID } from 'node:crypto'
import type { Client } from 'pg'
import { Lane, type Row } from '../../../src/db/lane.ts'
import { migrate } from '../../../src/db/migrate.ts'
import { type ClaimRequest, claimAndMeasure, newClaimId } from '../../../src/jobs/claim.ts'
import type { Claimed } from '../../../src/jobs/claimed.ts'
import { complete, KEEP_MS, turn } from '../../../src/jobs/completion.ts'
import { ENQUEUE } from '../../../src/jobs/enqueue.sql.ts'
import { enqueue } from '../../../src/jobs/enqueue.ts'
import type { Lease, Worker } from '../../../src/jobs/job.ts'
import { COMPLETE } from '../../../src/jobs/outcome.sql.ts'
import { ScanCursors } from '../../../src/jobs/scan-cursors.ts'
import type { Walk } from '../../../src/jobs/scan-walk.ts'
import { COUNT_LEASEHOLD, PAYLOAD_AS_JSON } from '../floor.sql.ts'
import type { BenchWorker, Design } from './design.ts'

export const QUEUE = 'bench'
const LEASE_MS = 3_600_000

interface Variation {
  readonly keep?: boolean
  readonly useMarks?: boolean
  /** Statements that replace the shipped ones. */
  readonly instead?: ReadonlyMap<string, string>
  readonly alter?: readonly string[]
}

export const leasehold = vary('leasehold')

export const notKept = vary('leasehold-not-kept', { keep: false })

/** Every claim looks from the beginning: what the mark buys. */
export const noMark = vary('no-mark', { useMarks: false })

/** What storing the payload as jsonb costs. */
export const jsonPayload = vary('json-payload', {
  alter: PAYLOAD_AS_JSON,
  instead: new Map([[ENQUEUE, changed(ENQUEUE, 'i.payload::jsonb', 'i.payload::json')]]),
})

/** A completion that waits for a locked row rather than returning `busy`. */
export const waitingLock = vary('waiting-lock', {
  instead: new Map([[COMPLETE, changed(COMPLETE, 'for update skip locked', 'for update')]]),
})

function vary(name: string, { keep = true, useMarks = true, instead, alter = [] }: Variation = {}): Design {
  const lane = (db: Client) => (instead === undefined ? new Lane(db) : new ReplacingLane(db, instead))
  return {
    name,
    table: 'leasehold.job',
    updatesPerJob: 1,
    keepsFinished: keep,
    setup: async (db) => {
      await migrate(db)
      for (const statement of alter) await db.query(statement)
    },
    producer: (db) => {
      const own = lane(db)
      return async (inputs) => {
        await enqueue(
          own,
          inputs.map((input) => ({ kind: QUEUE, input })),
        )
      }
    },
    worker: (db) => new LeaseholdWorker(lane(db), keep, useMarks),
    count: async (db) => {
      const [row] = await new Lane(db).run<'unfinished' | 'finished'>(COUNT_LEASEHOLD, [])
      return { unfinished: Number(row!.unfinished), finished: Number(row!.finished) }
    },
  }
}

class LeaseholdWorker implements BenchWorker {
  readonly #lane: Lane
  readonly #keep: boolean
  readonly #useMarks: boolean
  readonly #worker: Worker = { id: randomUUID(), label: `bench:${process.pid}` }
  #cursors = new ScanCursors([QUEUE])

  constructor(lane: Lane, keep: boolean, useMarks: boolean) {
    this.#lane = lane
    this.#keep = keep
    this.#useMarks = useMarks
  }

  claim(limit: number): Promise<readonly Lease[]> {
    return this.#claim(limit, (request, walk) => claimAndMeasure(this.#lane, request, walk))
  }

  turn(leases: readonly Lease[], limit: number): Promise<readonly Lease[]> {
    return this.#claim(limit, async (request, walk) => {
      const { notWritten, claimed } = await turn(this.#lane, this.#items(leases), request, walk)
      const { refused, busy } = await notWritten
      if (refused.length > 0 || busy.length > 0) throw new Error('a completion was refused')
      return claimed
    })
  }

  async #claim(
    limit: number,
    send: (request: ClaimRequest, walk: Walk) => Promise<Claimed>,
  ): Promise<readonly Lease[]> {
    if (!this.#useMarks) this.#cursors = new ScanCursors([QUEUE])
    const asked = this.#cursors.next(limit)
    const request = { claimId: newClaimId(), worker: this.#worker, kinds: [QUEUE], limit, leaseMs: LEASE_MS }
    const claimed = await send(request, asked.walk)
    this.#cursors.learn(asked, { ...claimed, limit })
    return claimed.jobs
  }

  #items(leases: readonly Lease[]) {
    const keepMs = this.#keep ? KEEP_MS : (false as const)
    return leases.map(({ jobId, claimId, generation }) => ({ jobId, claimId, generation, keepMs, runFrom: null }))
  }

  async complete(leases: readonly Lease[]): Promise<number> {
    let open = leases
    for (let sentAgain = 0; ; sentAgain += open.length) {
      const { refused, busy } = await complete(this.#lane, this.#worker, this.#items(open))
      if (refused.length > 0) throw new Error(`${refused.length} completions were refused, first ${refused[0]!.jobId}`)
      if (busy.length === 0) return sentAgain
      open = busy
    }
  }
}

class ReplacingLane extends Lane {
  readonly #instead: ReadonlyMap<string, string>

  constructor(db: Client, instead: ReadonlyMap<string, string>) {
    super(db)
    this.#instead = instead
  }

  override run<Column extends string>(statement: string, values: readonly unknown[]): Promise<readonly Row<Column>[]> {
    return super.run<Column>(this.#instead.get(statement) ?? statement, values)
  }
}

/** A variant that silently measures the shipped statement would be worse than none. */
function changed(statement: string, from: string, to: string): string {
  if (!statement.includes(from)) throw new Error(`the statement no longer says "${from}": ${statement.slice(0, 40)}`)
  return statement.replaceAll(from, to)
}
