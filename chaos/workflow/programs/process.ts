/** The common part of every process of a run: its configuration, its witness file and its database. */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { Leasehold } from '../../../src/index.ts'
import type { Orders as CommonOrders } from '../../common/drive.ts'
import { Witness } from '../../common/witness.ts'
import { plantStatements } from '../plants/in-process.ts'

export interface Orders extends CommonOrders {
  /** Of the database, through the faults. */
  readonly url: string
  /** Which of the starters. */
  readonly starter?: number
}

export const orders = JSON.parse(process.argv[2]!) as Orders
export const witness = new Witness(orders.directory, orders.name)
if (orders.plant !== undefined) plantStatements(orders.plant, witness)

export const pool = new pg.Pool({ connectionString: orders.url, max: 12, connectionTimeoutMillis: 10_000 })
// Lost on purpose. A query in flight still rejects.
pool.on('error', () => {})
pool.on('connect', (client) => client.on('error', () => {}))

export const leasehold = new Leasehold({ pool, log: ({ level, message }) => witness.write('log', { level, message }) })

/** Whether no process of the run has asked this before. */
export function isFirst(what: string): boolean {
  try {
    closeSync(openSync(join(orders.directory, `first-${Buffer.from(what).toString('hex')}`), 'wx'))
    return true
  } catch {
    return false
  }
}
