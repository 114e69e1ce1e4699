/** What happens to processes. */
import type { FaultCard } from './deck.ts'
import type { Scene } from './scene.ts'

const ROLLING_EVERY_MS = 700

/** Bites when the worker held a job. */
export async function kill({ pick }: FaultCard, scene: Scene, role: 'worker' | 'hand'): Promise<boolean> {
  const among = scene.seats[role]
  const seat = among[Math.floor(pick * among.length)]!
  const held = await scene.heldBy()
  const victim = await scene.crew.strike(seat, 'SIGKILL', { among })
  if (victim === undefined) return false
  scene.struck(victim, 'SIGKILL')
  return (held.get(scene.nameOf(victim.process)) ?? 0) > 0 || role === 'hand'
}

export async function killProducer({ pick }: FaultCard, scene: Scene): Promise<boolean> {
  const among = scene.seats.producer
  const seat = among[Math.floor(pick * among.length)]!
  const victim = await scene.crew.strike(seat, 'SIGKILL', { among })
  if (victim !== undefined) scene.struck(victim, 'SIGKILL')
  return victim !== undefined
}

/** Bites when the worker held a job. It does not know that it stood still. */
export async function stop({ pick, forMs }: FaultCard, scene: Scene): Promise<boolean> {
  const among = [...scene.seats.worker, ...scene.seats.hand]
  const seat = among[Math.floor(pick * among.length)]!
  const held = await scene.heldBy()
  const from = Date.now()
  const victim = await scene.crew.strike(seat, 'SIGSTOP', {
    among,
    forMs,
    onResume: () => scene.witness.write('stopped', { who: scene.nameOf(victim!.process), from, to: Date.now() }),
  })
  if (victim === undefined) return false
  scene.witness.write('stops', { who: scene.nameOf(victim.process), from })
  return (held.get(scene.nameOf(victim.process)) ?? 0) > 0
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
