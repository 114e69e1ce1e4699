// A throwaway PostgreSQL for tests and benchmarks, of any version. src/testing/programs.ts explains why it leaves nothing behind.
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  initdb,
  installedPackage,
  makeDataDirectory,
  PLATFORM_PACKAGE,
  runnableBinaries,
  startOnFreePort,
} from '../src/testing/postgres.ts'
import { hold, openHome } from '../src/testing/programs.ts'
import { fetchedPackage } from './fetched-package.ts'

export const POSTGRES_VERSIONS = [14, 15, 16, 17, 18] as const
export type PostgresVersion = (typeof POSTGRES_VERSIONS)[number]

export interface PostgresOptions {
  version?: PostgresVersion
  /** As in postgresql.conf. Durability is on unless turned off here: benchmarks need it. */
  settings?: Record<string, string>
  /** Where its directory is made. Default: where temporary ones are. */
  within?: string
  /** Fills the data directory in place of initdb, for a copy of another server. */
  fill?(dataDirectory: string): Promise<void>
}

export interface PostgresServer {
  /** Of the database `postgres`, as its superuser. */
  url: string
  port: number
  /** On Windows there is no cleaner, and the supervisor is the postmaster. */
  pids: { postmaster: number; supervisor: number | undefined; cleaner: number | undefined }
  /** The one directory everything is in. It is gone after `stop()`. */
  directory: string
  dataDirectory: string
  recentLog(): string
  restart(mode: 'fast' | 'immediate'): Promise<void> // Same data and port; immediate is a crash. Not on Windows.
  crash(): Promise<void> // The server stays down. Resolves when its last process is gone. Not on Windows.
  stop(): Promise<void>
}

// Version 18 comes with `npm install`; these are fetched when first asked for.
const FETCHED = { 14: '14.23.0-beta.17', 15: '15.18.0-beta.17', 16: '16.14.0-beta.17', 17: '17.10.0-beta.17' }

export async function startPostgres({
  version = 18,
  settings = {},
  within = tmpdir(),
  fill,
}: PostgresOptions = {}): Promise<PostgresServer> {
  const installed =
    version === 18 ? installedPackage() : await fetchedPackage(PLATFORM_PACKAGE, FETCHED[version], 'postgres')
  const home = await openHome(within)
  try {
    const bin = join(await runnableBinaries(installed, home), 'bin')
    const dataDirectory = makeDataDirectory(home)
    await (fill?.(dataDirectory) ?? initdb(home, bin, dataDirectory, version))
    const start = (more = {}) => startOnFreePort(home, join(bin, 'postgres'), dataDirectory, { ...settings, ...more })
    let { server, port } = await start()
    const postmaster = () => Number.parseInt(fs.readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8'), 10)
    home.letProcessEnd()
    const pids = { postmaster: postmaster(), supervisor: server.child.pid, cleaner: home.cleanerPid }
    const shutDown = async (mode: 'fast' | 'immediate') => {
      hold(true, server)
      process.kill(pids.postmaster, mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
      await server.ended
    }
    const restart = async (mode: 'fast' | 'immediate') => {
      await shutDown(mode)
      server = (await start({ port: String(port) })).server
      home.letProcessEnd()
      Object.assign(pids, { postmaster: postmaster(), supervisor: server.child.pid })
    }
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`
    const recentLog = () => server.recentLog()
    const crash = () => shutDown('immediate')
    return { url, port, pids, directory: home.directory, dataDirectory, recentLog, restart, crash, stop: home.close }
  } catch (error) {
    await home.close()
    throw error
  }
}
