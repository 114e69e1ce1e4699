import { createHash } from 'node:crypto'

export const FIRST_ORDER = 100_000

export interface Input {
  /** One higher with each: identifies jobs under any ids of a queue. */
  readonly orderId: number
  readonly note: string
  readonly template: string
  readonly amountCents: number
  /** Jobs of a key run one after the other, in a queue that keeps order. */
  readonly key?: string
}

/** In turns, jobs that follow each other in their keys lie beside each other in the table, key by key. Drawn keys lie anywhere. */
export type KeyOrder = 'turns' | 'drawn'

/**
 * Objects of about that many bytes as JSON, all different, the same in every run, and hard to compress. With `keys` each also has
 * one of so many keys, in turns or drawn; its size comes on top.
 */
export function makeInputs(count: number, bytes: number, from = 0, keys = 0, keyOrder: KeyOrder = 'turns'): Input[] {
  return Array.from({ length: count }, (_, at) => {
    const i = from + at
    const digest = createHash('shake256', { outputLength: Math.ceil((bytes - 76) * 0.75) }).update(String(i))
    const input = {
      orderId: FIRST_ORDER + i,
      note: digest.digest('base64'),
      template: 'receipt-v2',
      amountCents: (i * 7919) % 100_000,
    }
    return keys === 0 ? input : { ...input, key: `key:${keyOrder === 'turns' ? i % keys : drawn(i, keys)}` }
  })
}

/** The same in every run. */
function drawn(i: number, keys: number): number {
  return createHash('sha1').update(String(i)).digest().readUInt32BE() % keys
}
