/** Faults of processes. */
import type { Victim } from '../../common/crew.ts'
import type { FaultCard } from '../../common/deck.ts'
import type { Scene } from './scene.ts'

const ROLLING_EVERY_MS = 700

/** Looks this often for a process that has a job: after a crash of the server they take seconds to connect. */
const LOOKS = 100
const LOOK_EVERY_MS = 100

/** A seat whose process holds a job at this moment, or undefined after a long wait: a fault should hit work. */
async function seatWithJobs(scene: Scene, among: readonly number[], pick: number): Promise<number | undefined> {
  for (let look = 0; look < LOOKS; look++) {
    const held = await scene.heldBy()
    const hasJobs = ({ process, pid }: Victim) =>
      [...held.keys()].some((label) => label === scene.nameOf(process) || label?.endsWith(`:${pid}`))
    const holders = scene.crew.atWork(among).filter(hasJobs)
    if (holders.length > 0) return holders[Math.floor(pick * holders.length)]!.seat
    await scene.wait(LOOK_EVERY_MS)
  }
  return undefined
}

export async function kill({ pick }: FaultCard, scene: Scene, role: 'worker' | 'hand'): Promise<boolean> {
  const seat = await seatWithJobs(scene, scene.seats[role], pick)
  const victim = seat === undefined ? undefined : await scene.crew.strike(seat, 'SIGKILL', { among: [seat] })
  if (victim !== undefined) scene.struck(victim, 'SIGKILL')
  return victim !== undefined
}

export async function killProducer({ pick }: FaultCard, scene: Scene): Promise<boolean> {
  const among = scene.seats.producer
  const seat = among[Math.floor(pick * among.length)]!
  const victim = await scene.crew.strike(seat, 'SIGKILL', { among })
  if (victim !== undefined) scene.struck(victim, 'SIGKILL')
  return victim !== undefined
}

/** The process does not know that it was stopped. */
export async function stop({ pick, forMs }: FaultCard, scene: Scene): Promise<boolean> {
  const seat = await seatWithJobs(scene, [...scene.seats.worker, ...scene.seats.hand], pick)
  if (seat === undefined) return false
  const from = Date.now()
  const victim = await scene.crew.strike(seat, 'SIGSTOP', {
    among: [seat],
    forMs,
    onResume: () => scene.witness.write('stopped', { who: scene.nameOf(victim!.process), from, to: Date.now() }),
  })
  if (victim !== undefined) scene.witness.write('stops', { who: scene.nameOf(victim.process), from })
  return victim !== undefined
}

export async function terminate({ pick }: FaultCard, scene: Scene): Promise<boolean> {
  const among = [...scene.seats.worker, ...scene.seats.hand]
  const seat = among[Math.floor(pick * among.length)]!
  const victim = await scene.crew.strike(seat, 'SIGTERM', { among })
  if (victim !== undefined) scene.struck(victim, 'SIGTERM')
  return victim !== undefined
}

/** As a deploy does: one worker after the other. */
export async function rollingRestart(_: FaultCard, scene: Scene): Promise<boolean> {
  let struck = 0
  for (const seat of scene.seats.worker) {
    const victim = await scene.crew.strike(seat, 'SIGTERM', { among: [seat] })
    if (victim !== undefined) {
      scene.struck(victim, 'SIGTERM')
      struck++
    }
    await scene.wait(ROLLING_EVERY_MS)
  }
  return struck > 1
}
