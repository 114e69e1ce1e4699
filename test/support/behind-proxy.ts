// A worker's database behind a proxy that fails on command.
import type { TestContext } from 'node:test'
import type { ConnectionOptions } from '../../src/db/connection.ts'
import type { Leasehold } from '../../src/index.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { type Scene, scene } from './worker.ts'

export interface Behind extends Scene {
  readonly proxy: FaultyProxy
  /** Through the proxy; `lh` bypasses it. */
  readonly far: Leasehold
}

export async function behindProxy(t: TestContext, options: ConnectionOptions = {}): Promise<Behind> {
  const setting = await scene(t)
  const { hostname, port } = new URL(setting.db.url)
  const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
  setting.undo.after(() => proxy.stop())
  const far = setting.leasehold({ connectionString: proxy.url(setting.db.url), ...options })
  return { ...setting, proxy, far }
}
