/**
 * Processor time of one party's backends, where worker and producer are busy at the same time. Each party connects as a role
 * of its own; pg_stat_activity shows whose backend each is, and /proc its processor time. The server's background processes
 * belong to neither.
 */
import type { Client } from 'pg'
import { processMicros } from './processors.ts'

const ROLES = { worker: 'bench_worker', producer: 'bench_producer' } as const
/** A backend that ends between two readings takes its last moments with it; a pool ends only idle ones. */
const LOOK_EVERY_MS = 200

export type Party = keyof typeof ROLES

const OF_ROLE = `-- bench.backends
select pid from pg_stat_activity where usename = $1 and backend_type = 'client backend'`

/** Of a database in which the party has all rights, as the owner of the tables has. */
export async function urlFor(admin: Client, url: string, party: Party): Promise<string> {
  const role = ROLES[party]
  const { rowCount } = await admin.query('select from pg_roles where rolname = $1', [role])
  if (rowCount === 0) await admin.query(`create role ${role} login superuser`)
  const own = new URL(url)
  own.username = role
  return own.href
}

export class Backends {
  readonly #admin: Client
  readonly #role: string
  readonly #spent = new Map<number, number>()
  readonly #timer: NodeJS.Timeout

  constructor(admin: Client, party: Party) {
    this.#admin = admin
    this.#role = ROLES[party]
    this.#timer = setInterval(() => void this.look().catch(() => {}), LOOK_EVERY_MS)
  }

  /** Whose backends there are. */
  async look(): Promise<void> {
    const { rows } = await this.#admin.query(OF_ROLE, [this.#role])
    for (const { pid } of rows) if (!this.#spent.has(pid)) this.#spent.set(pid, 0)
    this.micros()
  }

  /** All their processor time since they began, those that have ended included. Null where the system has no /proc. */
  micros(): number | null {
    let total = 0
    for (const [pid, before] of this.#spent) {
      const micros = Math.max(processMicros(pid) ?? 0, before)
      this.#spent.set(pid, micros)
      total += micros
    }
    return total === 0 ? null : total
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
