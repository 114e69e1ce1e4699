/** "Two open incidents": all racers have read before any writes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { BEAT_MS, CONNECTIONS, ENTITIES, RACERS, WORKERS } from './scale.ts'
import type { Stage } from './stage.ts'
import { conflictsIn, doublesIn, openIn } from './verdict.ts'

const WITHOUT = 'without the guard: read what is open, evaluate, insert one if there was none.'
const WITH = 'with the guard: the same, but under a short lock read again, and insert only if nothing has changed.'
const LEFT_OUT = 'the guard left out: as in race 1.'

export async function playRace(stage: Stage, round: number, guarded: boolean): Promise<void> {
  const { catalogue, crew, database, screen, signal } = stage
  screen.print('')
  screen.say(`Race ${round}, ${guarded ? WITH : round === 1 ? WITHOUT : LEFT_OUT}`, 'bold')
  const { allHaveAsked, answer } = catalogue.nextRound()
  const arrived = Promise.all(crew.alive.map((worker) => worker.race(round, guarded)))
  const evaluations = await allHaveAsked
  const pools = await Promise.all(crew.alive.map((worker) => worker.reportPool()))
  const { connections, busy } = await database.noteEvaluating(round, evaluations, pools)
  screen.say(
    `Evaluating: ${evaluations} at once, ${RACERS} for each of ${ENTITIES} entities, ${evaluations / WORKERS} over each ` +
      `pool of ${CONNECTIONS}. Of ${connections} connections ${busy} are in use or waited for.`,
    'yellow',
  )
  await sleep(BEAT_MS, undefined, { signal })
  answer()
  await arrived
  const [open, doubles] = [await database.count(openIn(round)), await database.count(doublesIn(round))]
  if (doubles > 0) {
    screen.say(
      `Doubles: ${open} incidents opened for ${ENTITIES} entities, since all had read before anybody wrote.`,
      'red',
    )
    return
  }
  const conflicts = await database.count(conflictsIn(round))
  screen.say(
    `No doubles: ${open} entities have one each. ${conflicts} writes got ConcurrentModificationError.`,
    'green',
  )
}
