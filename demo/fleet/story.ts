/** The story act by act, and its text. The mishaps are the same with and without protection. */
import { setTimeout as sleep } from 'node:timers/promises'
import { BUCKETS } from '../../src/core/bucket.ts'
import { until } from '../program.ts'
import type { Screen } from '../screen.ts'
import type { Accounts } from './accounts.ts'
import type { Crew, WorkerProcess } from './crew.ts'
import type { Picture } from './picture.ts'
import { BEAT_MS, JOBS_PER_TENTH, LEASE_MS, QUEUE, WORKERS } from './scale.ts'

export interface Stage {
  readonly accounts: Accounts
  readonly crew: Crew
  readonly picture: Picture
  readonly screen: Screen
  readonly isUnprotected: boolean
  /** Aborted when the demo has to end. */
  readonly signal: AbortSignal
}

/** A change of the fleet, and what it did to the ring. */
export interface Step {
  readonly what: string
  readonly moved: number
  /** Until each bucket had one worker that looks for its jobs. */
  readonly seconds: number
}

/** What happened, for the verdict. */
export interface Told {
  readonly steps: readonly Step[]
  /** During the rolling restart. */
  readonly crashes: number
  /** By the rolling restart, for good. */
  readonly moved: number
}

export async function tellStory(stage: Stage): Promise<Told> {
  const { accounts, screen, signal } = stage
  const over = new AbortController()
  const producing = produce(accounts, AbortSignal.any([signal, over.signal]))
  producing.catch(() => {}) // Awaited below.
  const beat = async () => {
    await sleep(BEAT_MS, undefined, { signal })
    screen.print('')
  }
  const steps: Step[] = []
  const workers = await joins(stage, steps)
  await beat()
  await killed(stage, workers, steps)
  await beat()
  await stopped(stage, workers, steps)
  await beat()
  const rolled = await deploy(stage, workers, steps)
  over.abort()
  await producing
  await until(async () => (await accounts.unfinished()) === 0, signal)
  return { steps, ...rolled }
}

/** An ordered workload, without a pause. */
async function produce(accounts: Accounts, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await accounts.add(JOBS_PER_TENTH)
    await sleep(100, undefined, { signal }).catch(() => {})
  }
}

async function joins(stage: Stage, steps: Step[]): Promise<WorkerProcess[]> {
  const { crew, screen } = stage
  screen.say(`Act 1, growth: ${WORKERS} workers join, one after the other.`, 'bold')
  const workers: WorkerProcess[] = []
  for (let n = 1; n <= WORKERS; n++) {
    const step = await change(stage, `worker ${n} joins`, n, async () => void workers.push(await crew.hire()))
    steps.push(step)
    const { name, buckets } = workers.at(-1)!
    const all = buckets.size === step.moved ? 'all of them' : `${buckets.size} of them`
    screen.say(`${name} joins: ${step.moved} of ${BUCKETS} buckets move, ${all} to it.`)
  }
  if (!stage.isUnprotected) {
    screen.say(`leasehold.ownerOf('${QUEUE}', 'account:7'): ${await stage.accounts.ownerOf('account:7')}.`)
  }
  return workers
}

async function killed(stage: Stage, workers: WorkerProcess[], steps: Step[]): Promise<void> {
  const { crew, screen, isUnprotected } = stage
  const victim = workers[2]!
  screen.say(`Act 2, the crash: ${victim.name} is killed in the middle of a job.`, 'bold')
  await victim.getBusy()
  const takeover = await change(stage, `${victim.name} is killed`, WORKERS - 1, async () => {
    const ending = victim.end('SIGKILL')
    const bound = isUnprotected ? '' : ` Its seat is leased for ${LEASE_MS / 1_000} s.`
    screen.say(`kill -9: ${victim.name}.${bound} Its buckets wait; all others go on.`, 'red')
    await ending
  })
  steps.push(takeover)
  screen.say(`Taken over after ${takeover.seconds.toFixed(1)} s: ${takeover.moved} buckets, by the three others.`)
  const back = await change(stage, 'another takes its seat', WORKERS, async () => {
    workers[2] = await crew.hire()
  })
  steps.push(back)
  screen.say(`${workers[2]!.name} takes the free seat, and with it the same ${back.moved} buckets.`)
}

async function stopped(stage: Stage, workers: WorkerProcess[], steps: Step[]): Promise<void> {
  const { crew, screen, isUnprotected, signal } = stage
  const sleeper = workers[1]!
  screen.say(`Act 3, the pause: ${sleeper.name} stands still past its lease, in the middle of a job.`, 'bold')
  await sleeper.getBusy()
  steps.push(
    await change(stage, `${sleeper.name} is stopped`, WORKERS - 1, async () => {
      await sleeper.pause()
      screen.say(`SIGSTOP: ${sleeper.name}. It holds jobs, and takes its buckets for its own.`, 'red')
    }),
  )
  screen.say(`The others have its ${steps.at(-1)!.moved} buckets after ${steps.at(-1)!.seconds.toFixed(1)} s.`)
  await sleep(LEASE_MS / 2, undefined, { signal }) // The leases of its jobs expire a little later than that of its seat.
  steps.push(await change(stage, `${sleeper.name} goes on`, WORKERS, () => sleeper.wake()))
  if (isUnprotected) {
    screen.say(`SIGCONT: ${sleeper.name} enters what it had read seconds ago. Nothing stops it.`, 'red')
    return
  }
  // Without a fence there is none, and the verdict shows it.
  const waitsUntil = performance.now() + 10_000
  await until(() => crew.refused > 0 || performance.now() > waitsUntil, signal)
  screen.say(
    `SIGCONT: ${sleeper.name} wants to commit its old jobs and is refused, ${crew.refused} times. It takes its seat again.`,
    'green',
  )
}

async function deploy(stage: Stage, workers: WorkerProcess[], steps: Step[]): Promise<Pick<Told, 'crashes' | 'moved'>> {
  const { accounts, crew, picture, screen } = stage
  screen.say(`Act 4, the deploy: ${WORKERS} workers get SIGTERM one by one, each followed by its successor.`, 'bold')
  const seatOf = async (worker: WorkerProcess | undefined) => (await accounts.roster()).seats.get(worker?.name ?? '')
  const seats = async () => {
    const { seats: byName } = await accounts.roster()
    return picture.owners().map((owner) => byName.get(owner?.name ?? ''))
  }
  const before = await seats()
  const from = await accounts.now()
  for (const [index, old] of workers.entries()) {
    const seat = await seatOf(old)
    let seconds = 0
    const step = await change(stage, `${old.name} is replaced`, WORKERS, async () => {
      const left = performance.now()
      await old.end('SIGTERM')
      seconds = (performance.now() - left) / 1_000
      workers[index] = await crew.hire()
    })
    steps.push(step)
    const next = workers[index]!
    screen.say(
      `${old.name} leaves in ${seconds.toFixed(1)} s. ${next.name} takes ${(await seatOf(next)) === seat ? 'its seat' : 'another seat'}.`,
    )
  }
  const after = await seats()
  const moved = after.filter((seat, bucket) => seat !== before[bucket]).length
  const crashes = stage.isUnprotected ? 0 : await accounts.crashesSince(from)
  if (!stage.isUnprotected) {
    const words = `${moved} buckets are at another seat than before, and ${crashes} leases have expired or attempts were spent.`
    screen.say(`${moved + crashes === 0 ? 'Right' : 'Wrong'}: ${words}`, moved + crashes === 0 ? 'green' : 'red')
  }
  return { crashes, moved }
}

/** Makes a change of the fleet, and waits until each bucket has one owner among so many workers. */
async function change(stage: Stage, what: string, workers: number, make: () => Promise<void>): Promise<Step> {
  const { crew, picture, signal } = stage
  await crew.loaded() // That takes a second or more, and no part of the change.
  const before = picture.owners()
  const startedAt = performance.now()
  await make()
  const isSettled = () => {
    const owners = picture.owners()
    return !owners.includes(undefined) && new Set(owners).size === workers
  }
  await until(isSettled, signal)
  const seconds = (performance.now() - startedAt) / 1_000
  const moved = picture.owners().filter((owner, bucket) => owner !== before[bucket]).length
  return { what, moved, seconds }
}
