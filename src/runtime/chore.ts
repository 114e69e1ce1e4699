import type { Pool } from 'pg'
import { checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'

/** Something to be done every so often, by one worker of all. It must be safe to do twice. */
export interface Chore {
  readonly name: string
  readonly every: Duration
  /** Returns counts of what it did, for the `chore` event; `givenUp` is logged as a warning. */
  run(pool: Pool, signal?: AbortSignal): Promise<Readonly<Record<string, number>>>
}

const SUCH = "[{ name: 'clean up', every: '1h', run: async (pool) => { … } }]"

export function checkChores(option: string, chores: readonly Chore[]): readonly Chore[] {
  if (!Array.isArray(chores)) throw new InvalidOptionError(option, `it must be a list: ${SUCH}`)
  const names = chores.map((chore, index) => {
    if (typeof chore?.run !== 'function') {
      throw new InvalidOptionError(`${option}[${index}]`, `it has no run(); write ${SUCH}`)
    }
    durationMs(`${option}[${index}].every`, chore.every, 100)
    return checkText(`${option}[${index}].name`, chore.name, 200)
  })
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice === undefined) return chores
  throw new InvalidOptionError(option, `there are two of the name ${twice}`)
}
