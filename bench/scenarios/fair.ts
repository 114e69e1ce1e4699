/** A fair queue: many jobs of one key in front must neither delay other keys nor make a claim dear. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { newClaimId } from '../../src/jobs/claim.ts'
import { among, type Bench } from '../bench.ts'
import { CLAIM_KEYS } from '../fair.sql.ts'
import { FEW, type Line } from '../order-lines.ts'
import { interleaved } from '../rounds.ts'
import type { Database } from '../server.ts'
import { CLAIM, claimMicros, filled, forget } from './order-claims.ts'

const CONTENDER = 'leasehold-fair'
const CLAIMS_AT_MOST = 100

export async function fairClaims(bench: Bench): Promise<void> {
  if (among(bench, [CONTENDER]).length === 0) return
  const lines: Record<string, Line> = {
    few: [FEW],
    'many of 1 key in front': [{ jobs: bench.sizes.order.waiting, keys: 1 }, FEW],
  }
  const runs = await interleaved(bench, 'fair-claim', Object.keys(lines), async (line) => {
    const database = await filled(bench, CONTENDER, lines[line]!)
    const micros = await claimMicros(bench, CONTENDER, database, CLAIM)
    const claims = await claimsUntilAnotherKey(database)
    await database.drop()
    return {
      result: { micros, claims },
      said: `${micros?.toFixed(0) ?? '?'} µs a claim, another key in claim ${claims}`,
    }
  })
  for (const [line, rounds] of runs) {
    const add = (measure: 'claimMicros' | 'claims', values: (number | null)[]) =>
      bench.results.add('fair-claim', `${CONTENDER}, ${line}`, measure, bench.sizes.order.claims, values)
    add(
      'claimMicros',
      rounds.map(({ micros }) => micros),
    )
    add(
      'claims',
      rounds.map(({ claims }) => claims),
    )
  }
  for (const line of Object.values(lines)) await forget(bench, CONTENDER, line)
}

/** The first key is the one that is in front. */
async function claimsUntilAnotherKey({ url }: Database): Promise<number> {
  const db = new pg.Client(url)
  await db.connect()
  try {
    for (let claims = 1; claims <= CLAIMS_AT_MOST; claims++) {
      const { rows } = await db.query(CLAIM_KEYS, [newClaimId(), randomUUID(), CLAIM])
      if (new Set(rows.map(({ partition_key: key }) => key)).size > 1) return claims
    }
    return Number.POSITIVE_INFINITY
  } finally {
    await db.end()
  }
}
