// services.ts
// Toys that stand for a warehouse, a bank and a mail service. Real ones are called over the network, and get the key, too.
import { setTimeout as sleep } from 'node:timers/promises'

async function call(what: string, key: string, ms = 0): Promise<void> {
  console.log(`${what} … (key ${key.slice(-6)})`)
  await sleep(ms)
  console.log(`${what}: done`)
}

export const services = {
  reserve: (order: number, key: string) => call(`reserve the goods of order ${order}`, key),
  charge: (order: number, key: string) => call(`charge order ${order}`, key, 5_000),
  notify: (order: number, key: string) => call(`notify the customer of order ${order}`, key),
  refund: (order: number, key: string) => call(`refund order ${order}`, key),
  release: (order: number, key: string) => call(`release the goods of order ${order}`, key),
}
