// A service outside the database: a card processor, an LLM, a mail house. It records every call, so it is the witness of
// real effects. As good services do, it answers a call whose key it knows with its earlier response.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Call {
  /** The action and its object: `charge/order-1`. */
  readonly effect: string
  /** The idempotency key, if there was one. */
  readonly key: string | undefined
  /** False: the key was known, so nothing happened but the response. */
  readonly happened: boolean
}

export interface ProviderOptions {
  /** The effect has happened; its response is sent when this resolves. Default: at once. */
  readonly answerAfter?: (call: Call) => Promise<unknown>
}

export interface Provider {
  readonly url: string
  readonly calls: readonly Call[]
  /** How often the effect really happened; all of them without a name. */
  happened(effect?: string): number
  stop(): Promise<void>
}

export async function startProvider({ answerAfter }: ProviderOptions = {}): Promise<Provider> {
  const calls: Call[] = []
  const known = new Map<string, string>()
  const server = createServer(async (request, response) => {
    const effect = decodeURIComponent(request.url!.slice(1))
    const key = request.headers['idempotency-key'] as string | undefined
    const before = key === undefined ? undefined : known.get(key)
    const call = { effect, key, happened: before === undefined }
    calls.push(call)
    const answer = before ?? JSON.stringify({ effect, number: calls.length })
    if (key !== undefined) known.set(key, answer)
    await answerAfter?.(call)
    response.end(answer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    happened: (effect) => calls.filter((call) => call.happened && (effect ?? call.effect) === call.effect).length,
    stop: async () => {
      server.closeAllConnections()
      if (server.listening) await once(server.close(), 'close')
    },
  }
}

/** Calls the provider, from any process. */
export async function callProvider(url: string, effect: string, key?: string): Promise<unknown> {
  const response = await fetch(`${url}/${encodeURIComponent(effect)}`, {
    method: 'POST',
    headers: { connection: 'close', ...(key === undefined ? {} : { 'idempotency-key': key }) },
  })
  return response.json()
}
