import type { Connection } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import { linesIn } from '../jobs/lines.ts'
import { pausedBy } from '../jobs/pause.ts'
import type { Events } from './events.ts'
import type { Fetcher } from './fetcher.ts'
import { Listener } from './listener.ts'
import type { Runner } from './runner.ts'

export interface ListenForOptions {
  readonly deadlineMs: number
  /** Another connection, over which the listener is tested. */
  readonly over: Lane
  readonly label: string
  /** How the worker learns of new work from now on, in words. */
  onWakeUp(how: string): void
  readonly queues: readonly string[]
  readonly fetcher: Fetcher
  readonly runner: Runner
  /** A signal was sent to a run of a workflow that this worker knows. */
  onSignal(): void
  /** Seats on the ring have changed, or a change was acknowledged. */
  onRing(message: string): void
  readonly events: Events
  isStopping(): boolean
}

/** A listener that passes notifications to the parts of a worker. Undefined with the option `listen: false`. */
export function listenFor(connection: Connection, options: ListenForOptions): Listener | undefined {
  const { prepare } = connection
  const listen = connection.listenerFor(options.label)
  if (listen === undefined) return undefined
  const { deadlineMs, over, queues, fetcher, runner, events, isStopping } = options
  const known = new Set(queues)
  let heard: boolean | undefined
  return new Listener({
    connection: listen,
    deadlineMs,
    over,
    prepare,
    queue: queues[0]!,
    onWork: (message) => {
      const { queue, lines } = linesIn(message)
      if (known.has(queue)) fetcher.wake(queue, lines)
    },
    onHelp: (queue) => {
      if (known.has(queue)) fetcher.help(queue)
    },
    onFleet: (workers) => fetcher.setFleet(workers),
    onCancel: () => runner.lookForCancel(),
    onPause: (message) => runner.pause(pausedBy(message)),
    onRing: options.onRing,
    onSignal: (queue) => {
      if (known.has(queue)) options.onSignal()
    },
    onHears: (hears) => {
      if (hears === heard || isStopping()) return
      heard = hears
      fetcher.setHears(hears)
      events.emit('wakeup', { by: hears ? 'listen' : 'poll' })
      options.onWakeUp(hears ? 'listens for new work' : 'LISTEN unavailable; polls for new work')
    },
    events: events.about('listening'),
  })
}
