/** The end of a run: waits until every run of a workflow has ended, and every job. */
import type { Scene } from './faults.ts'

const LOOK_EVERY_MS = 250
/** A run that was released or woken is claimed within a moment. */
const QUIET_LOOKS = 4
/** Things that only go round and round are stuck, too: after so many times the limit. */
const LONGEST = 5

/** `withinMs`: how long it may stand still. A busy machine is slow, and still moves. */
export async function settle(scene: Scene, withinMs: number): Promise<string[]> {
  const deadline = performance.now() + LONGEST * withinMs
  let [before, movedAt] = ['', performance.now()]
  for (let looks = 0; ; ) {
    const { left, moved } = await whatIsLeft(scene).catch((error) => ({ left: [`an answer: ${error}`], moved: '' }))
    looks = left.length === 0 ? looks + 1 : 0
    const now = `${left.join()} ${moved}`
    if (now !== before) movedAt = performance.now()
    before = now
    if (looks === QUIET_LOOKS || performance.now() > Math.min(deadline, movedAt + withinMs)) return left
    await scene.wait(LOOK_EVERY_MS)
    scene.signal.throwIfAborted()
  }
}

async function whatIsLeft({ world, crew, seats }: Scene): Promise<{ left: string[]; moved: string }> {
  const { rows } = await world.admin.query(
    `select coalesce(idempotency_key, kind) as what, status::text, label from leasehold.jobs
     where status in ('pending', 'processing') order by id`,
  )
  const left = rows.map(({ what, status, label }) => `${what} ${status} ${label ?? ''}`.trim())
  for (const seat of seats.starter) if (!crew.hasSaid(seat, 'done')) left.push(`a starter on seat ${seat}`)
  const steps = await world.admin.query('select count(*)::int as steps from leasehold.steps')
  return { left, moved: String(steps.rows[0].steps) }
}
