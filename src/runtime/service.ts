import type { CommonEvents, EventHub } from './event-hub.ts'
import type { Lifecycle, StopOptions } from './lifecycle.ts'

/** What a worker and a consumer have in common for their users. */
export abstract class Service<Events extends CommonEvents & { [Name in keyof Events]: unknown[] }> {
  protected abstract readonly events: EventHub<Events>
  protected abstract readonly lifecycle: Lifecycle

  on<Name extends string & keyof Events>(name: Name, listener: (...event: Events[Name]) => void): this {
    this.events.on(name, listener)
    return this
  }

  off<Name extends string & keyof Events>(name: Name, listener: (...event: Events[Name]) => void): this {
    this.events.off(name, listener)
    return this
  }

  /**
   * Works until a signal or stop() ends it. It runs once. Rejects when it cannot begin: the database was not migrated or lets us
   * not in, or there is no such queue.
   */
  run(): Promise<void> {
    return this.lifecycle.run()
  }

  /**
   * Takes no more work, lets handlers end within the grace period, and releases the rest: a job without spending an attempt, a
   * message visible at once. Called again with a grace of 0, it waits for handlers no longer.
   */
  stop(options: StopOptions = {}): Promise<void> {
    return this.lifecycle.stop(options)
  }
}
