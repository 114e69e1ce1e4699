// What the emulator does otherwise than AWS, put right in its store.
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
  /** All that is in flight in this queue can be received again, as if its time were over. */
  endTimeouts(url: string): void
}

/** The connection that the request under way came on. */
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

/** By itself it gives a message to a long poll that was hung up on, and the message is seen again half a minute later. */
function giveNothingToTheGone(queue: Queue): void {
  const take = queue.dequeue.bind(queue)
  queue.dequeue = (...args) => (hasHungUp(caller.getStore()) ? [] : take(...args))
}

/** Who has said goodbye is not there any more, though the connection may take a moment to close. */
function hasHungUp(socket: Socket | undefined): boolean {
  return socket !== undefined && (socket.destroyed || socket.readableEnded || socket.writableEnded)
}

/**
 * AWS gives out up to ten messages of a FIFO group in one receive, in their order, and then none of that group while any
 * of them is in flight. The emulator gives out one. What it does with several is right but for their order when they come
 * back.
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
