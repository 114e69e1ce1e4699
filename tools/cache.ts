// The cache of fetched programs.
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { canWriteIn } from '../src/testing/postgres.ts'

export { canWriteIn }

/** Used when node_modules belongs to another user. */
export function ownCache(): string {
  const uid = process.getuid?.() ?? 0
  const cache = join(tmpdir(), `leasehold-cache-${uid}`)
  // Any user can make a directory of this name in the temporary directory; programs are run only from our own.
  if (canWriteIn(cache) && fs.lstatSync(cache).uid === uid) return cache
  throw new Error(`${cache} is not a directory of this user, so nothing can be kept there.`)
}
