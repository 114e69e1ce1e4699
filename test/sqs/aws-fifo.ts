// A FIFO queue that behaves as AWS does, where the emulator differs: a receive brings up to ten of one group, each counts as
// delivered, and no message of a group is handed out while any of it is in flight. The test moves its time.
import type { Message } from '@aws-sdk/client-sqs'
import type { SqsClient } from '../../src/sqs/index.ts'
import { silence, through } from './scene.ts'
import { type Asked, message } from './scripted.ts'

interface Stored {
  readonly id: string
  receiveCount: number
  visibleAt: number
}

interface Receive {
  readonly MaxNumberOfMessages: number
  readonly VisibilityTimeout: number
  readonly WaitTimeSeconds: number
}

/** Of each message the group is its first letter. After so many deliveries it goes to the dead letters. */
export function awsFifo(ids: readonly string[], maxReceiveCount: number) {
  let now = 0
  let stored: Stored[] = ids.map((id) => ({ id, receiveCount: 0, visibleAt: 0 }))
  const dead: string[] = []
  /** Receives that wait, and how many messages each of them would take. */
  const open = new Map<() => void, number>()
  const changed = () => {
    for (const tryAgain of [...open.keys()]) tryAgain()
  }

  const give = (most: number, visibilityMs: number): Message[] => {
    const inFlight = new Set(stored.filter(({ visibleAt }) => visibleAt > now).map(({ id }) => id[0]))
    const given: Message[] = []
    for (const one of stored.filter(({ id }) => !inFlight.has(id[0]))) {
      if (given.length === most) break
      if (one.receiveCount >= maxReceiveCount) {
        dead.push(one.id)
        stored = stored.filter((other) => other !== one)
        continue
      }
      one.receiveCount++
      one.visibleAt = now + visibilityMs
      given.push({ ...message(one.id, one.id[0], one.receiveCount), ReceiptHandle: `${one.id} ${one.receiveCount}` })
    }
    return given
  }

  const receive = ({ MaxNumberOfMessages, VisibilityTimeout, WaitTimeSeconds }: Receive, signal: AbortSignal) => {
    const until = now + WaitTimeSeconds * 1_000
    const answered = new Promise((resolve) => {
      const tryIt = () => {
        const isOver = signal.aborted || now >= until
        const Messages = isOver ? [] : give(MaxNumberOfMessages, VisibilityTimeout * 1_000)
        if (!isOver && Messages.length === 0) return
        open.delete(tryIt)
        resolve({ Messages })
      }
      open.set(tryIt, MaxNumberOfMessages)
      tryIt()
    })
    return Promise.race([answered, silence(signal)])
  }

  const client = through({} as SqsClient, async (name, _, { input }, signal) => {
    if (name === 'ReceiveMessage') return receive(input as Receive, signal)
    const { Entries = [] } = input as Asked
    for (const { ReceiptHandle, VisibilityTimeout } of Entries) {
      const one = stored.find(({ id, receiveCount }) => ReceiptHandle === `${id} ${receiveCount}`)
      if (name === 'DeleteMessageBatch') stored = stored.filter((other) => other !== one)
      else if (one !== undefined) one.visibleAt = now + VisibilityTimeout! * 1_000
    }
    changed()
    return { Successful: Entries }
  })

  const pass = (ms: number) => {
    now += ms
    changed()
  }
  return { client, dead, open, pass }
}
