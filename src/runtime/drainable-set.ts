import { sleep } from '../core/timer.ts'

/** A set that can be waited for until it is empty. */
export class DrainableSet<Member> extends Set<Member> {
  #onEmpty: (() => void)[] = []

  override delete(member: Member): boolean {
    const was = super.delete(member)
    if (this.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve()
    return was
  }

  /** Resolves when none is left, or after `ms`, or at once when the signal aborts. */
  async left(ms: number, signal?: AbortSignal): Promise<void> {
    if (this.size === 0 || signal?.aborted) return
    const over = new AbortController()
    const end = () => over.abort()
    this.#onEmpty.push(end)
    signal?.addEventListener('abort', end)
    await sleep(ms, over.signal)
    signal?.removeEventListener('abort', end)
  }
}
