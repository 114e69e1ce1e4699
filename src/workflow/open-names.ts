import { InvalidOptionError } from '../core/errors.ts'
import type { EntryType } from './journal.ts'
import type { Call } from './replay.ts'

/** Calls that are under way. Two of one name could not be told apart when the run resumes. */
export class OpenNames {
  readonly #open = new Set<string>()

  check(type: EntryType, name: string): void {
    const open = `${type} ${name}`
    if (!this.#open.has(open)) return
    throw new InvalidOptionError(open, 'another one of this name is under way; give each its own, such as [name, id]')
  }

  async during<T>({ type, name }: Pick<Call, 'type' | 'name'>, work: () => Promise<T>): Promise<T> {
    const open = `${type} ${name}`
    this.#open.add(open)
    try {
      return await work()
    } finally {
      this.#open.delete(open)
    }
  }
}
