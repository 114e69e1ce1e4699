/** The handlers of each queue, correct ones and wrong ones, so that the checker can be seen to detect them. */
import type { Pool } from 'pg'
import { z } from 'zod'
import { Inbox } from '../../src/inbox/index.ts'
import { Fatal, type Job, kind, type Leasehold } from '../../src/index.ts'
import {
  type Handle,
  inOneTransaction,
  inOneUpdate,
  inTwoPhases,
  intoQueues,
  type SqsMessage,
} from '../../src/sqs/index.ts'
import { statusTable } from '../../src/tables/index.ts'
import { callProvider } from '../../tools/provider.ts'
import type { Way } from './plan.ts'

export const body = z.object({ id: z.number(), type: z.string(), fatal: z.boolean().optional() })
export type Body = z.infer<typeof body>

// Text in each statement, not a name, so that the proxy sees which one it is. All lost messages are found within seconds.
const ROWS = {
  columns: ['result'],
  stuckAfter: '2s',
  backoff: { first: '500ms', max: '2s' },
  maxAttempts: 1_000,
  prepare: false,
} as const
export const TABLES = { 'two phases': statusTable('two_phases', ROWS), 'one update': statusTable('one_update', ROWS) }

export const task = kind<Body>('task', { maxAttempts: 1_000, backoff: { first: '200ms', max: '1s' } })

/** The tables. Nothing in them prevents a second write of an effect, so that it can be seen. */
export const SCHEMA = `
  create table two_phases (id integer primary key, status text not null default 'pending', result text);
  create table one_update (id integer primary key, status text not null default 'pending', result text);
  ${TABLES['two phases'].sql()}
  ${TABLES['one update'].sql()}
  create table finished (way text not null, id integer not null);
  create function note_finished() returns trigger language plpgsql as
    $$ begin insert into finished values (replace(tg_table_name, '_', ' '), new.id); return null; end $$;
  create trigger note after update on two_phases for each row
    when (new.status = 'completed') execute function note_finished();
  create trigger note after update on one_update for each row
    when (new.status = 'completed') execute function note_finished();
  create table effect (id integer not null);
  create table line (position bigint generated always as identity, group_id text not null, id integer not null)`

export interface Surroundings {
  readonly pool: Pool
  readonly leasehold: Leasehold
  readonly provider: string
  /** Throws now and then. */
  readonly mood: (key: string) => void
  readonly broken: boolean
}

/** Its name at the witness. */
export function effectOf(way: Way, id: number): string {
  return `${way}/${id}`
}

export function handleOf(way: Way, { pool, leasehold, provider, mood, broken }: Surroundings): Handle<Body> {
  type Message = SqsMessage<Body>
  const id = ({ body }: Message) => body.id
  const call = async (message: Message, key: string) => {
    const delivery = `${message.id} ${message.receiveCount}`
    mood(`${delivery} before`)
    await callProvider(provider, effectOf(way, message.body.id), broken ? undefined : key)
    mood(`${delivery} after`)
  }
  switch (way) {
    case 'two phases':
      return inTwoPhases(TABLES[way], pool, {
        id,
        effect: async (message: Message, claim) => {
          await call(message, claim.effectKey('call'))
          return { result: claim.token }
        },
      })
    case 'one update': {
      const work = async (message: Message) => {
        await call(message, TABLES[way].effectKey(message.body, 'call'))
        return { result: message.id }
      }
      return inOneUpdate(TABLES[way], pool, { id, from: 'pending', to: 'completed', work })
    }
    case 'once per message': {
      const work = async (tx: Pick<Pool, 'query'>, message: Message) => {
        if (message.body.fatal) throw new Fatal('poison')
        await tx.query('insert into effect values ($1)', [message.body.id])
        await call(message, `once ${message.body.id}`)
      }
      if (broken) return (message: Message) => work(pool, message)
      return inOneTransaction(new Inbox(leasehold, { source: way }), work, { key: ({ body }) => String(body.id) })
    }
    case 'into a queue':
      return intoQueues<Body>(new Inbox(leasehold, { source: way }), {
        kinds: [task],
        kindOf: 'type',
        key: ({ body }) => String(body.id),
      })
    case 'in order': {
      const append = inOneTransaction(new Inbox(leasehold, { source: way }), async (tx, message: Message) => {
        if (message.body.fatal) throw new Fatal('poison')
        // In a short run chance alone might spare all of them.
        if (broken && message.receiveCount === 1 && message.body.id % 2 === 0) throw new Error('on purpose')
        await tx.query('insert into line (group_id, id) values ($1, $2)', [message.groupId, message.body.id])
        await call(message, `in order ${message.body.id}`)
      })
      // Wrong: it is not awaited.
      return broken ? (message: Message) => void append(message).catch(() => {}) : append
    }
  }
}

/** Of the jobs that messages became. */
export function jobOf({ provider, mood, broken }: Surroundings): (job: Job<Body>) => Promise<void> {
  return async (job) => {
    mood(`${job.id} ${job.generation} before`)
    await callProvider(provider, effectOf('into a queue', job.input.id), broken ? undefined : job.effectKey('call'))
    mood(`${job.id} ${job.generation} after`)
  }
}
