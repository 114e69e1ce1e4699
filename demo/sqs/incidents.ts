/**
 * Act 4: messages about entities, in a FIFO queue grouped by entity. The evaluation is slow and holds no lock. Meanwhile another
 * service, which the queue knows nothing of, opens an incident for the same entity.
 */
import { randomUUID } from 'node:crypto'
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs'
import type pg from 'pg'
import { SqsConsumer } from '../../src/sqs/index.ts'
import { WriteGuard } from '../../src/tables/index.ts'
import type { SqsServer } from '../../tools/sqs.ts'
import { Gate } from '../gate.ts'
import { until } from '../program.ts'
import type { Stage } from './story.ts'

const ENTITIES = 6
const TABLE = 'create table incident (id serial primary key, entity integer not null, opened_by text not null)'

interface Body {
  readonly entity: number
  readonly turn: number
}

/** What only this act knows, and the verdict needs. */
export interface Incidents {
  /** Messages that yielded to the other service. */
  readonly yielded: number
  /** Messages behind them that evaluated anew. */
  readonly evaluatedAnew: number
}

export async function incidents(stage: Stage, sqs: SqsServer): Promise<Incidents> {
  const { database, screen, isUnguarded, signal } = stage
  const { pool } = database
  screen.say(`Act 4, a slow evaluation: ${ENTITIES} entities, two messages each, in a FIFO queue by entity.`, 'bold')
  await pool.query(TABLE)
  const queueUrl = await sqs.createQueue('entities.fifo', { ContentBasedDeduplication: 'false' })
  const [evaluations, opened] = [new Set<number>(), new Gate()]
  const guard = new WriteGuard(pool)
  let evaluatedAnew = 0
  const evaluate = async ({ entity, turn }: Body) => {
    const seen = await openIncidents(entity)(pool)
    if (turn === 1) {
      evaluations.add(entity)
      await opened.opened // The model takes its time. No lock is held, and no connection.
    } else evaluatedAnew++
    if (seen.length > 0) return
    const write = open(entity, 'the consumer')
    if (isUnguarded) await write(pool)
    else
      await guard.run({ site: 'open incident', lock: `entity:${entity}`, seen, reread: openIncidents(entity), write })
  }
  const consumer = new SqsConsumer<Body>(sqs.client, {
    queueUrl,
    signals: [],
    log: () => {}, // A warning for each that yields; the act counts them.
    handle: ({ body }) => evaluate(body),
  })
  const running = consumer.run()
  try {
    await send(sqs, queueUrl)
    await until(() => evaluations.size === ENTITIES, signal)
    for (let entity = 1; entity <= ENTITIES; entity++) await open(entity, 'another service')(pool)
    screen.say('While the evaluations run, another service opens an incident for each of these entities.', 'yellow')
    opened.knock()
    await until(() => evaluatedAnew === ENTITIES, signal)
  } finally {
    opened.knock()
    await consumer.stop()
    await running
  }
  const { concurrent_modification: yielded } = consumer.counts()
  const twice = await database.count(OPENED_TWICE)
  if (isUnguarded) screen.say(`Damage: ${twice} entities have two open incidents.`, 'red')
  else {
    const then = 'Their messages were deleted, and the next of each group evaluated anew.'
    screen.say(`Right: under the lock the guard read again, and ${yielded} writers yielded. ${then}`, 'green')
  }
  return { yielded, evaluatedAnew }
}

export const OPENED_TWICE = 'select count(*) from (select from incident group by entity having count(*) > 1) as twice'

function openIncidents(entity: number) {
  return async (db: pg.Pool | pg.ClientBase): Promise<string[]> => {
    const { rows } = await db.query<{ id: number }>('select id from incident where entity = $1', [entity])
    return rows.map(({ id }) => String(id))
  }
}

function open(entity: number, by: string) {
  return (db: pg.Pool | pg.ClientBase) =>
    db.query('insert into incident (entity, opened_by) values ($1, $2)', [entity, by])
}

async function send({ client }: SqsServer, queueUrl: string): Promise<void> {
  for (const turn of [1, 2]) {
    const Entries = Array.from({ length: ENTITIES }, (_, index) => ({
      Id: String(index),
      MessageBody: JSON.stringify({ entity: index + 1, turn } satisfies Body),
      MessageGroupId: `entity:${index + 1}`,
      MessageDeduplicationId: randomUUID(),
    }))
    await client.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }))
  }
}

export const YIELDS = ENTITIES
