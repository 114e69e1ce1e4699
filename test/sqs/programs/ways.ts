// The four ways of handling a message, with places on the way where a process may die.
import type { Pool } from 'pg'
import { Inbox } from '../../../src/inbox/index.ts'
import { kind, type Leasehold } from '../../../src/index.ts'
import { type AnsweringHandle, inOneTransaction, inOneUpdate, inTwoPhases, intoQueue } from '../../../src/sqs/index.ts'
import { callProvider } from '../../support/provider.ts'
import { summaries } from '../../tables/summaries.ts'

export type Way = 'two phases' | 'one update' | 'once per message' | 'into a queue'
export type Place =
  | 'before the effect'
  | 'after the effect'
  | 'after the commit'
  | 'before the delete'
  | 'at the delete'

export interface Body {
  readonly id: number
}

export interface Surroundings {
  readonly pool: Pool
  readonly leasehold: Leasehold
  readonly provider: string
  /** Whether the provider is given a key. */
  readonly keyed: boolean
  readonly at: (place: Place) => void
}

export const task = kind<Body>('task')

export function handleOf(way: Way, surroundings: Surroundings): AnsweringHandle<Body> {
  const { at } = surroundings
  const handle = inside(way, surroundings)
  return async (message) => {
    const answer = await handle(message)
    at('after the commit')
    return answer
  }
}

function inside(way: Way, { pool, leasehold, provider, keyed, at }: Surroundings): AnsweringHandle<Body> {
  const id = ({ body }: { readonly body: Body }) => body.id
  const effect = async ({ body }: { readonly body: Body }) => {
    at('before the effect')
    const key = keyed ? summaries.effectKey(body, 'llm') : undefined
    const answer = await callProvider(provider, `summary-${body.id}`, key)
    at('after the effect')
    return { result: JSON.stringify(answer) }
  }
  switch (way) {
    case 'two phases':
      return inTwoPhases(summaries, pool, { id, effect })
    case 'one update':
      return inOneUpdate(summaries, pool, { id, from: 'pending', to: 'completed', work: effect })
    case 'once per message':
      return inOneTransaction(new Inbox(leasehold, { source: 'test' }), async (tx, { body }) => {
        at('before the effect')
        await tx.query('insert into effect values ($1)', [body.id])
        at('after the effect')
      })
    case 'into a queue': {
      const enqueue = intoQueue<Body>(new Inbox(leasehold, { source: 'test' }), task)
      return async (message) => {
        at('before the effect')
        return enqueue(message)
      }
    }
  }
}
