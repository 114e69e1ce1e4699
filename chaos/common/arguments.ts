/** The arguments of a chaos command. */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'

const MAX_MINUTES = 600

export interface Arguments {
  readonly seed: number
  readonly minutes: number
  readonly json: boolean
  readonly plant: string | undefined
  readonly plants: readonly string[] | undefined
  readonly again: string | undefined
}

/** Undefined: the command is wrong. */
export function readArguments(known: readonly string[]): Arguments | undefined {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        seed: { type: 'string' },
        minutes: { type: 'string' },
        json: { type: 'boolean', default: false },
        plant: { type: 'string' },
        plants: { type: 'boolean', default: false },
        again: { type: 'string' },
      },
    })
    const seed = values.seed === undefined ? randomInt(1_000_000) : Number(values.seed)
    const minutes = Number(values.minutes ?? 3)
    const plants = values.plants ? (positionals.length > 0 ? positionals : known) : undefined
    const isRight =
      Number.isSafeInteger(seed) &&
      minutes > 0 &&
      minutes <= MAX_MINUTES &&
      (values.plant === undefined || known.includes(values.plant)) &&
      (plants === undefined ? positionals.length === 0 : plants.every((name) => known.includes(name)))
    const { json, plant, again } = values
    return isRight ? { seed, minutes, json, plant, plants, again } : undefined
  } catch {
    return undefined
  }
}
