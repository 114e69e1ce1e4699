/**
 * The end of a run. First everything arrives that no poison event holds up; then an operator lets the blocked keys go on, one dead
 * letter after the other, and the rest arrives. So a poison event that delays another key shows.
 */
import { DESTINATIONS, LANES, STREAMS } from './destinations.ts'
import type { Scene } from './faults.ts'
import { askJetStream, type World } from './world.ts'

const LOOK_EVERY_MS = 250
/** A key that could not be judged when its last job left is looked at by a later claim. */
const QUIET_LOOKS = 8
/** Things that only go round and round are stuck, too: after so many times the limit. */
const LONGEST = 5

export async function settle(scene: Scene, withinMs: number): Promise<string[]> {
  const deadline = performance.now() + LONGEST * withinMs
  let left = await quiet(scene, withinMs, deadline)
  scene.witness.write('quiet', { left })
  while (left.length === 0 && (await unblock(scene.world)) > 0) left = await quiet(scene, withinMs, deadline)
  return left
}

/** `withinMs`: how long it may stand still. A busy machine is slow, and still moves. */
async function quiet(scene: Scene, withinMs: number, deadline: number): Promise<string[]> {
  let [before, movedAt] = ['', performance.now()]
  for (let looks = 0; ; ) {
    const left = await whatIsLeft(scene).catch((error) => [`an answer: ${error}`])
    looks = left.length === 0 ? looks + 1 : 0
    if (left.join() !== before) movedAt = performance.now()
    before = left.join()
    if (looks === QUIET_LOOKS || performance.now() > Math.min(deadline, movedAt + withinMs)) return left
    await scene.wait(LOOK_EVERY_MS)
    scene.signal.throwIfAborted()
  }
}

/** Jobs that wait behind a dead letter are not counted. */
async function whatIsLeft({ world, crew, seats }: Scene): Promise<string[]> {
  const { rows } = await world.publishing.query(
    `select queue, status::text, label, count(*)::int from leasehold.jobs
     where queue like 'outbox:%' and status in ('pending', 'processing') and label is distinct from 'blocked' group by 1, 2, 3`,
  )
  const left = rows.map(({ queue, status, label, count }) => `${count} in ${queue} ${status} ${label ?? ''}`.trim())
  for (const seat of seats.producer) if (!crew.hasSaid(seat, 'done')) left.push(`a producer on seat ${seat}`)
  for (const stream of STREAMS)
    for (let lane = 0; lane < LANES; lane++) {
      type Info = { num_pending: number; num_ack_pending: number }
      const { num_pending: waiting, num_ack_pending: held } = await askJetStream<Info>(
        world.nats,
        `CONSUMER.INFO.${stream}.${stream}-${lane}`,
      )
      if (waiting + held > 0) left.push(`${waiting + held} in ${stream}.${lane}`)
    }
  const { visible, inFlight } = await world.sqs.depth(world.queueUrl)
  if (visible + inFlight > 0) left.push(`${visible + inFlight} in SQS`)
  return left
}

async function unblock({ leasehold, witness }: World): Promise<number> {
  const { queue, name } = DESTINATIONS.stock
  const blocked = (await leasehold.blockedKeys({ queue, limit: 1_000 })).filter(({ why }) => why === 'dead_letter')
  for (const { partitionKey } of blocked) {
    const askedAt = Date.now()
    const outcome = await leasehold.unblock({ queue, partitionKey }, { by: 'chaos' })
    witness.write('unblock', { destination: name, key: partitionKey, outcome, askedAt })
  }
  return blocked.length
}
