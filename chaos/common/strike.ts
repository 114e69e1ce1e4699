/** Signals to processes of a role. */
import type { Scene } from './drive.ts'

/** Looks this often for a process that is at work: on a busy machine a new one takes seconds to start. */
export const LOOKS = 50
export const LOOK_EVERY_MS = 200

/** How a process is struck: which of its role, and for how long it stands still. */
interface Strike {
  readonly pick: number
  readonly forMs: number
}

/** A fault for each of these roles and each signal. */
export function strikesAt<Role extends string, Card extends Strike, Reach extends Scene<unknown, Role>>(
  roles: readonly Role[],
): Record<string, { run(card: Card, scene: Reach): Promise<boolean> }> {
  return Object.fromEntries(
    roles.flatMap((role) =>
      (['SIGKILL', 'SIGTERM', 'SIGSTOP'] as const).map((signal) => [
        `${signal} ${role}`,
        { run: (card: Card, scene: Reach) => strike(role, signal, card, scene) },
      ]),
    ),
  )
}

async function strike<Role extends string>(
  role: Role,
  signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP',
  { pick, forMs }: Strike,
  { crew, seats, witness, nameOf, wait }: Scene<unknown, Role>,
): Promise<boolean> {
  const among = seats[role]
  const seat = among[Math.floor(pick * among.length)]!
  for (let look = 0; look < LOOKS; look++) {
    const victim = await crew.strike(seat, signal, { among, forMs })
    if (victim !== undefined) {
      witness.write('struck', { who: nameOf(victim.process), signal, forMs })
      return true
    }
    await wait(LOOK_EVERY_MS)
  }
  return false
}
