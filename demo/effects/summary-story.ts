/** "Called the LLM twice": the same forty messages, and the same mishaps, three times. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Gate } from '../gate.ts'
import { LLM_MS } from '../llm.ts'
import type { WorkerProcess } from './crew.ts'
import type { Way } from './messages.ts'
import { idsOf, LANES, ROWS, rowsOf } from './scale.ts'
import type { Stage } from './stage.ts'
import { overwrittenIn, refusedIn } from './verdict.ts'
import { dollars, rows } from './words.ts'

const HOW: Readonly<Record<Way, string>> = {
  naive: 'is the row done? If not, call the LLM, then UPDATE the row by its id.',
  'one UPDATE': `the same, but the UPDATE says WHERE status = 'pending'. Who comes second changes nothing.`,
  'two phases': 'claim the row, call the LLM with a key, commit. Who comes second calls nobody.',
}

export async function playAct(stage: Stage, act: number, way: Way): Promise<void> {
  const { crew, database, queue, screen, isUnguarded, signal } = stage
  screen.print('')
  const isLeftOut = act === 3 && isUnguarded
  screen.say(`Act ${act}, ${isLeftOut ? 'two phases left out: as in act 2.' : `${way}: ${HOW[way]}`}`, 'bold')
  queue.way = way
  if (way === 'two phases') for (const worker of crew.alive) worker.recover()
  await database.addRows(idsOf(act))
  const { atOnce, killed, slow, calm } = rowsOf(act)
  const victim = crew.alive[1]!
  crew.setAside = victim
  await Promise.all([
    twiceAtOnce(stage, atOnce),
    killInTheMiddle(stage, killed, victim),
    outlastTheQueue(stage, slow),
    inTurn(stage, calm),
  ])
  await database.untilFinished(signal)
  await queue.untilIdle()
  await sumUp(stage, act, way)
}

/** Two processes get the message, and the LLM replies to neither before both have called it or were refused. */
async function twiceAtOnce({ crew, llm, queue, screen }: Stage, ids: readonly number[]): Promise<void> {
  screen.say(`Twice at once: ${rows(ids)} are handed to two processes each.`, 'yellow')
  const toTwo = async (id: number) => {
    const both = new Gate(2)
    llm.hold(id, () => {
      both.knock()
      return both.opened
    })
    const first = crew.next()
    const deliveries = [queue.deliver(id, first), queue.deliver(id, crew.next(first))]
    await Promise.all(deliveries.map((delivery) => delivery.then(() => both.knock())))
  }
  await Promise.all(ids.map(toTwo))
}

/** The LLM has been called, and will be paid, but its caller is dead before the reply. */
async function killInTheMiddle(stage: Stage, ids: readonly number[], victim: WorkerProcess): Promise<void> {
  const { crew, llm, queue, screen } = stage
  const allAsked = new Gate(ids.length)
  const dead = new Gate()
  for (const id of ids) {
    llm.hold(id, () => {
      allAsked.knock()
      return dead.opened.then(() => sleep(LLM_MS))
    })
  }
  const kill = async () => {
    await allAsked.opened
    await victim.end('SIGKILL')
    screen.say(`kill -9: ${victim.name}, in the middle of calls for ${rows(ids)}.`, 'red')
    dead.knock()
    await crew.hire()
  }
  await Promise.all([...ids.map((id) => queue.sendTo(victim, id, dead.opened)), kill()])
}

/** The LLM replies to the first caller only after the message was redelivered and handled. */
async function outlastTheQueue({ crew, llm, queue, screen }: Stage, ids: readonly number[]): Promise<void> {
  const allAsked = new Gate(ids.length)
  const send = async (id: number) => {
    const asked = new Gate()
    const handledAgain = new Gate()
    let calls = 0
    llm.hold(id, () => {
      asked.knock()
      if (++calls > 1) return sleep(LLM_MS)
      allAsked.knock()
      return handledAgain.opened
    })
    await queue.sendTo(crew.next(), id, asked.opened)
    handledAgain.knock()
  }
  const said = allAsked.opened.then(() => {
    screen.say(`Slow: the LLM ponders ${rows(ids)}; they are delivered again.`, 'yellow')
  })
  await Promise.all([...ids.map(send), said])
}

async function inTurn({ queue }: Stage, ids: readonly number[]): Promise<void> {
  const left = [...ids]
  const lane = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) await queue.send(id)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

async function sumUp({ database, llm, screen }: Stage, act: number, way: Way): Promise<void> {
  const { calls, billed, rowsPaidTwice } = llm.bill(idsOf(act))
  const overwritten = await database.count(overwrittenIn(act))
  screen.say(`The bill: ${ROWS} rows, ${calls} calls, ${billed} billed, ${dollars(billed)}.`, 'cyan')
  if (way === 'naive') {
    screen.say(
      `Damage: ${rowsPaidTwice} rows paid for twice: who sees a row that is not done calls the LLM. ${overwritten} ` +
        'results overwritten: the last to write wins.',
      'red',
    )
  } else if (way === 'one UPDATE') {
    const refused = await database.count(refusedIn(act))
    screen.say(
      `Better: ${overwritten} results overwritten, ${refused} late ones answered "already handled". But ` +
        `${rowsPaidTwice} rows paid for twice: the call comes before the UPDATE.`,
      'yellow',
    )
  } else {
    screen.say(
      `Right: ${rowsPaidTwice} rows paid for twice. Who came second found the row claimed; ${calls - billed} calls that ` +
        'were cut off were made again, and the LLM knew their keys.',
      'green',
    )
  }
}
