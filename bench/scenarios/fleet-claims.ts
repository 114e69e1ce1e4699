/** What jobs of other workers cost a claim from one's own lines. */

import { BUCKETS } from '../../src/core/bucket.ts'
import { among, type Bench, setUp } from '../bench.ts'
import type { ClaimsFrom } from '../contenders/contender.ts'
import { FILL_LINES } from '../ring-claims.sql.ts'
import { ownBuckets } from '../ring-claims.ts'
import { interleaved } from '../rounds.ts'
import { claimMicros } from './order-claims.ts'

const CONTENDER = 'leasehold-ring'
const QUEUE = 'bench'
/** Whether 7 other seats have jobs, older than those of the seat that claims. */
const OTHERS = ['alone', 'others in front'] as const
export const CLAIM_SIZES = [1, 50, 500]
export const CLAIMS_FROM: readonly ClaimsFrom[] = ['start', 'marks']

export async function claimsBehindOthers(bench: Bench): Promise<void> {
  if (among(bench, [CONTENDER]).length === 0) return
  const { claims, pairs } = bench.sizes.fleet
  for (const from of CLAIMS_FROM) {
    for (const limit of CLAIM_SIZES) {
      const title = claimTitle(limit, from)
      const runs = await interleaved(
        bench,
        `fleet-claim, ${title}`,
        OTHERS,
        async (others) => {
          const database = await laid(bench, others)
          const result = await claimMicros(bench, CONTENDER, database, limit, claims, from)
          await database.drop()
          return { result, said: `${result?.toFixed(0) ?? '?'} µs a claim` }
        },
        () => pairs,
      )
      for (const [others, micros] of runs) {
        bench.results.add('fleet-claim', `${CONTENDER}, ${title}, ${others}`, 'claimMicros', claims, micros)
      }
    }
  }
  for (const others of OTHERS) await bench.server.forget(templateOf(others))
}

export function claimTitle(limit: number, from: ClaimsFrom): string {
  return `${limit} ${limit === 1 ? 'job' : 'jobs'} from ${from === 'start' ? 'the beginning' : 'marks'}`
}

function laid(bench: Bench, others: (typeof OTHERS)[number]) {
  return bench.server.clone(templateOf(others), async (main, url) => {
    await setUp(bench, CONTENDER, url)
    const own = ownBuckets()
    const foreign = Array.from({ length: BUCKETS }, (_, bucket) => bucket).filter((bucket) => !own.includes(bucket))
    if (others !== 'alone') await main.query(FILL_LINES, [bench.sizes.fleet.others, QUEUE, foreign])
    await main.query(FILL_LINES, [bench.sizes.fleet.own, QUEUE, own])
    await main.query('vacuum (analyze)')
  })
}

function templateOf(others: (typeof OTHERS)[number]): string {
  return `fleet-claim-${others.replaceAll(' ', '-')}`
}
