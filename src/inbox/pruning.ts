/**
 * Forgets events that their transport can no longer redeliver. The duty `inbox` is taken by workers (worker/housekeeper.ts) and by
 * processes that only receive: of all of them one prunes, once in an interval. A process that receives looks after its first
 * event, so that also one that ends soon has its turn, and then once in an interval. No receive waits for it.
 */
import { checkInteger } from '../core/check.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import { takeDuties } from '../runtime/duty.ts'
import { PRUNE_INBOX } from './inbox.sql.ts'

/** Between two turns of all processes. */
export const PRUNE_EVERY_MS = 600_000
const MANY = 10_000
/** Every event leaves a row: up to two million are dealt with in a turn. */
const ROUNDS = 200

/** Deletes events past their retention. Returns how many. */
export async function pruneInbox(lane: Lane, limit = MANY): Promise<number> {
  return (await lane.run(PRUNE_INBOX, [checkInteger('limit', limit, 1, MANY)])).length
}

/** Deletes all that are due, in batches, unless there are too many for a turn. */
export async function pruneDue(lane: Lane, isStopping: () => boolean = () => false): Promise<void> {
  for (let round = 0; round < ROUNDS && !isStopping(); round++) if ((await pruneInbox(lane)) < MANY) return
}

/** One for each connection, however many inboxes it has. */
const pruners = new WeakMap<Connection, Pruner>()

export function prunerOf(connection: Connection): Pruner {
  const pruner = pruners.get(connection) ?? new Pruner(connection)
  pruners.set(connection, pruner)
  return pruner
}

class Pruner {
  readonly #connection: Connection
  #turnAt: number | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Starts a turn, if one may be due. Never throws. */
  afterReceive(): void {
    if (this.#turnAt !== undefined && monotonicMs() - this.#turnAt < PRUNE_EVERY_MS) return
    this.#turnAt = monotonicMs()
    void this.#turn().catch((error) => {
      // The next receive reports an outage itself.
      if (isOutage(error) || this.#connection.pool.ending) return
      this.#connection.log({ level: 'warn', message: 'the inbox could not be pruned', error })
    })
  }

  async #turn(): Promise<void> {
    const { lane, pool } = this.#connection
    const { taken } = await takeDuties(lane, { inbox: PRUNE_EVERY_MS })
    if (taken.length > 0) await pruneDue(lane, () => pool.ending)
  }
}
