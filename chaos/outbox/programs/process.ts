/** The common part of every process of a run: its configuration, its witness file and its database. */
import type { SQSClientConfig } from '@aws-sdk/client-sqs'
import pg from 'pg'
import { Leasehold } from '../../../src/index.ts'
import type { Orders as CommonOrders } from '../../common/drive.ts'
import { Witness } from '../../common/witness.ts'
import { plantStatements } from '../plants/in-process.ts'

export interface Orders extends CommonOrders {
  /** Of the database of this process, through the faults. */
  readonly url: string
  /** The broker, through the faults. */
  readonly nats: string
  readonly sqs: SQSClientConfig
  readonly queueUrl: string
  /** Which of the producers. */
  readonly producer?: number
}

export const orders = JSON.parse(process.argv[2]!) as Orders
export const witness = new Witness(orders.directory, orders.name)
if (orders.plant !== undefined) plantStatements(orders.plant, witness)

export const pool = new pg.Pool({ connectionString: orders.url, max: 12, connectionTimeoutMillis: 10_000 })
// Lost on purpose. A query in flight still rejects.
pool.on('error', () => {})
pool.on('connect', (client) => client.on('error', () => {}))

export const leasehold = new Leasehold({ pool, log: ({ level, message }) => witness.write('log', { level, message }) })
