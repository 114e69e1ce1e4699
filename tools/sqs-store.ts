// Corrects the emulator's store where it differs from AWS.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Socket } from 'node:net'
import type { BuildAppOptions } from 'fauxqs'

interface Queue {
  readonly fifoMessages: Map<string, { sequenceNumber: string }[]>
  /** How many of each group are in flight. */
  readonly fifoLockedGroups: Map<string, number>
  readonly inflightMessages: Map<string, { message: { messageGroupId: string }; visibilityDeadline: number }>
  dequeue(...args: unknown[]): unknown[]
  dequeueFifo(most: number, ...rest: unknown[]): { ReceiptHandle: string }[]
  processTimers(): void
}

interface Store {
  createQueue(...args: unknown[]): Queue
  getQueue(url: string): Queue | undefined
}

export interface PatchedStore extends Required<Pick<BuildAppOptions, 'stores'>> {
  /** Makes all messages in flight visible again, as if their timeout were over. */
  endTimeouts(url: string): void
}

/** The connection of the current request. */
export const caller = new AsyncLocalStorage<Socket>()

export async function sqsStore(options: { groupsTogether: boolean }): Promise<PatchedStore> {
  const { SqsStore } = await import(new URL('sqs/sqsStore.js', import.meta.resolve('fauxqs')).href)
  const store: Store = new SqsStore()
  const createQueue = store.createQueue.bind(store)
  store.createQueue = (...args) => {
    const queue = createQueue(...args)
    giveNothingToTheGone(queue)
    if (options.groupsTogether) giveGroupsTogether(queue)
    return queue
  }
  const endTimeouts = (url: string) => {
    const queue = store.getQueue(url)!
    for (const entry of queue.inflightMessages.values()) entry.visibilityDeadline = 0
    queue.processTimers()
  }
  return { stores: { sqsStore: store } as never, endTimeouts }
}

/** The emulator gives a message to a long poll that was aborted, and shows it again half a minute later. */
function giveNothingToTheGone(queue: Queue): void {
  const take = queue.dequeue.bind(queue)
  queue.dequeue = (...args) => (hasHungUp(caller.getStore()) ? [] : take(...args))
}

/** A client that has sent its FIN is gone, though the connection may take a moment to close. */
function hasHungUp(socket: Socket | undefined): boolean {
  return socket !== undefined && (socket.destroyed || socket.readableEnded || socket.writableEnded)
}

/**
 * AWS returns up to ten messages of a FIFO group in one receive, in order, and then none of that group while any of them is
 * in flight. The emulator returns one. It handles several correctly except for their order when they are redelivered.
 */
function giveGroupsTogether(queue: Queue): void {
  const takeOneOfEach = queue.dequeueFifo.bind(queue)
  const takeBackExpired = queue.processTimers.bind(queue)
  const locks = queue.fifoLockedGroups
  queue.dequeueFifo = (most, ...rest) => {
    const taken = takeOneOfEach(most, ...rest)
    for (let more = taken; more.length > 0 && taken.length < most; taken.push(...more)) {
      const ours = taken.map(({ ReceiptHandle }) => queue.inflightMessages.get(ReceiptHandle)!.message.messageGroupId)
      for (const group of ours) locks.delete(group)
      more = takeOneOfEach(most - taken.length, ...rest)
      for (const group of ours) locks.set(group, (locks.get(group) ?? 0) + 1)
    }
    return taken
  }
  queue.processTimers = () => {
    takeBackExpired()
    for (const group of queue.fifoMessages.values())
      group.sort((one, other) => one.sequenceNumber.localeCompare(other.sequenceNumber))
  }
}
