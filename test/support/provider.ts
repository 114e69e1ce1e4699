// The service outside the database, for tests: it ends with its test.
import { type Provider, type ProviderOptions, startProvider as start } from '../../tools/provider.ts'
import type { Undo } from './worker.ts'

export { type Call, callProvider, type Provider } from '../../tools/provider.ts'

export async function startProvider(t?: Undo, options?: ProviderOptions): Promise<Provider> {
  const provider = await start(options)
  t?.after(() => provider.stop())
  return provider
}
