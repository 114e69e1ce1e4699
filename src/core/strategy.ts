import { notThis } from './duration.ts'
import { InvalidOptionError } from './errors.ts'
import { likely } from './options.ts'

/** How buckets are divided among seats. The first is the default. */
export const STRATEGIES = ['consistent', 'rendezvous', 'modulo'] as const

export type Strategy = (typeof STRATEGIES)[number]

export function checkStrategy(option: string, value: unknown): Strategy {
  const found = STRATEGIES.find((strategy) => strategy === value)
  if (found !== undefined) return found
  if (typeof value !== 'string') {
    throw new InvalidOptionError(option, `it must be one of ${STRATEGIES.join(', ')}${notThis(value)}`)
  }
  const name = value.slice(0, 40)
  throw new InvalidOptionError(option, `there is no strategy ${JSON.stringify(name)}; ${likely(name, STRATEGIES)}`)
}
