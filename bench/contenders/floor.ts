/**
 * The raw statements in a loop, with no runtime around them: the yardstick for what a runtime costs. Not a limit: a worker
 * overlaps claims with completions, and each connection of this loop does one after the other.
 */
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import type { Design } from '../floor/designs/design.ts'
import * as designs from '../floor/designs/leasehold.ts'
import { FIRST_ORDER } from '../inputs.ts'
import { type Contender, type Handle, pinnedVersion } from './contender.ts'

const CONNECTIONS = 3
const BATCH = 500
const EMPTY_WAIT_MS = 2

export const floor = contender(designs.leasehold)

export const floorNotKept = contender(designs.notKept)

function contender(design: Design): Contender {
  return {
    version: `pg ${pinnedVersion('pg')}`,
    why: `The statements that ship, from ${CONNECTIONS} connections, ${BATCH} jobs at a time.`,
    enqueueBatch: 5_000,
    unfinished: 'select count(*)::int as left from leasehold.job',
    setUp: async (url) => {
      const db = await connect(url)
      await design.setup(db)
      await db.end()
    },
    produce: async (url) => {
      const db = await connect(url)
      const put = design.producer(db)
      return { enqueueMany: put, enqueue: (input) => put([input]), close: () => db.end() }
    },
    work: async (url, _style, handle) => {
      const sessions = await Promise.all(Array.from({ length: CONNECTIONS }, () => connect(url)))
      const stopping = new AbortController()
      const loops = sessions.map((db) => loop(design, db, handle, stopping.signal))
      return {
        stop: async () => {
          stopping.abort()
          await Promise.all(loops)
          await Promise.all(sessions.map((db) => db.end()))
        },
      }
    },
  }
}

async function loop(design: Design, db: pg.Client, handle: Handle, stopping: AbortSignal): Promise<void> {
  const worker = design.worker(db)
  while (!stopping.aborted) {
    const leases = await worker.claim(BATCH)
    if (leases.length === 0) {
      await setTimeout(EMPTY_WAIT_MS)
      continue
    }
    // Ids count from 1 in a fresh database, in the order of the inputs. The payload is not even parsed.
    await Promise.all(leases.map(({ jobId }) => handle({ orderId: FIRST_ORDER + Number(jobId) - 1 })))
    await worker.complete(leases)
  }
}

async function connect(url: string): Promise<pg.Client> {
  const db = new pg.Client(url)
  await db.connect()
  return db
}
