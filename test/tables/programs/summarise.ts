// A process that writes one summary in two phases and may be killed on the way. Its first argument configures it.
import pg from 'pg'
import { callProvider } from '../../support/provider.ts'
import { summaries } from '../summaries.ts'

/** Where it is when it is killed, if at all. */
export type DiesAt = 'before the claim' | 'after the claim' | 'after the effect' | 'after the commit' | 'never'

export interface Orders {
  readonly url: string
  readonly provider: string
  readonly id: number
  readonly diesAt: DiesAt
  /** Whether the provider is given a key. */
  readonly keyed: boolean
}

const { url, provider, id, diesAt, keyed } = JSON.parse(process.argv[2]!) as Orders
const pool = new pg.Pool({ connectionString: url, max: 2 })

at('before the claim')
const worked = await summaries.work(pool, id, async ({ effectKey }) => {
  at('after the claim')
  const answer = await callProvider(provider, `summary-${id}`, keyed ? effectKey('llm') : undefined)
  at('after the effect')
  return { result: JSON.stringify(answer) }
})
at('after the commit')
process.stdout.write(worked.outcome)
await pool.end()

function at(place: DiesAt): void {
  if (diesAt === place) process.kill(process.pid, 'SIGKILL')
}
