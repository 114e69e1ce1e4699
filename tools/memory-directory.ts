import { readFileSync, statfsSync } from 'node:fs'

const DIRECTORY = '/dev/shm'
const ROOM_BYTES = 4 * 2 ** 30
/** Its contents use the memory that all processes share. */
const MEMORY_BYTES = 8 * 2 ** 30

/**
 * A directory in memory, where there is one with room enough in which programs may be run. To clone a database is to make
 * some 400 files: 30 ms there, up to 400 on a disk.
 */
export function memoryDirectory(): string | undefined {
  try {
    const mounts = readFileSync('/proc/mounts', 'utf8').split('\n')
    const [, , type, options = ''] = mounts.map((line) => line.split(' ')).find(([, at]) => at === DIRECTORY) ?? []
    const { bavail, bsize } = statfsSync(DIRECTORY)
    const isFit = type === 'tmpfs' && !options.split(',').includes('noexec')
    return isFit && bavail * bsize >= ROOM_BYTES && process.availableMemory() >= MEMORY_BYTES ? DIRECTORY : undefined
  } catch {
    return undefined // Not Linux.
  }
}
