// The cache of fetched programs.
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Used when node_modules belongs to another user. */
export function ownCache(): string {
  const uid = process.getuid?.() ?? 0
  const cache = join(tmpdir(), `leasehold-cache-${uid}`)
  // Any user can make a directory of this name in the temporary directory; programs are run only from our own.
  if (canWriteIn(cache) && fs.lstatSync(cache).uid === uid) return cache
  throw new Error(`${cache} is not a directory of this user, so nothing can be kept there.`)
}

export function canWriteIn(directory: string): boolean {
  try {
    fs.mkdirSync(directory, { recursive: true, mode: 0o755 })
    fs.accessSync(directory, fs.constants.W_OK)
    return true
  } catch {
    return false
  }
}
