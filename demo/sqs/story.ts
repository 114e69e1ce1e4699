/** The story act by act, and its text. The mishaps are the same with and without protection. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SqsServer } from '../../tools/sqs.ts'
import { Gate } from '../gate.ts'
import { LLM_MS, type Llm } from '../llm.ts'
import { until } from '../program.ts'
import { and, type Screen } from '../screen.ts'
import { STUCK_AFTER, type SummaryDatabase } from '../summary.ts'
import type { ConsumerProcess, Crew } from './crew.ts'
import { type Incidents, incidents } from './incidents.ts'
import type { Settled } from './messages.ts'
import type { Queue } from './queue.ts'
import { BEAT_MS, CONCURRENCY, CONSUMERS, POISON, RESEND_AFTER, ROWS, VISIBILITY } from './scale.ts'
import { OVERWRITTEN, reclaimed } from './verdict.ts'

export interface Stage {
  readonly sqs: SqsServer
  readonly database: SummaryDatabase
  readonly queue: Queue
  readonly llm: Llm
  readonly crew: Crew
  readonly screen: Screen
  /** The protection is left out, to show its use. */
  readonly isUnguarded: boolean
  /** Aborted when the demo has to end. */
  readonly signal: AbortSignal
}

/** Facts that only the story knows, and the verdict needs. */
export interface Told {
  /** The rows that a consumer was killed or stopped in the middle of. */
  readonly interrupted: readonly number[]
  /** The outcomes of the deliveries that the stopped one held. */
  readonly late: readonly Settled[]
  readonly guarded: Incidents
}

export async function tellStory(stage: Stage): Promise<Told> {
  const { crew, screen, signal } = stage
  const beat = async () => {
    await sleep(BEAT_MS, undefined, { signal })
    screen.print('')
  }
  const [, second, third] = crew.all
  screen.say('PostgreSQL, SQS and the consumers are up.')
  await beat()
  await duplicates(stage)
  await beat()
  const told = await interruptions(stage, second!, third!)
  await beat()
  await oddOnes(stage)
  await beat()
  const guarded = await incidents(stage, stage.sqs)
  await crew.stop()
  screen.print('')
  screen.say('Nothing is left to do. The consumers got SIGTERM and are gone.')
  screen.print('')
  return { ...told, guarded }
}

async function duplicates(stage: Stage): Promise<void> {
  const { llm, screen, isUnguarded } = stage
  const ids = ROWS.twice
  screen.say(`Act 1, duplicates: ${ids.length} rows, and for each the same message twice.`, 'bold')
  await addTwice(stage, ids)
  await untilDone(stage)
  const { calls, billed } = llm.bill(ids)
  const sum = `${ids.length} rows, ${2 * ids.length} messages, ${calls} calls, ${billed} billed.`
  if (isUnguarded)
    screen.say(`Damage: ${sum} Every message is a call, and the second result overwrites the first.`, 'red')
  else screen.say(`Right: ${sum} The second message found its row claimed or completed, and was deleted.`, 'green')
}

async function interruptions(
  stage: Stage,
  victim: ConsumerProcess,
  sleeper: ConsumerProcess,
): Promise<Omit<Told, 'guarded'>> {
  const { llm, screen, isUnguarded } = stage
  const ids = ROWS.interrupted
  screen.say(`Act 2, interruptions: ${ids.length} more rows, again with two messages each.`, 'bold')
  const answers = new Gate()
  for (const id of ids) llm.hold(id, () => answers.opened.then(() => sleep(LLM_MS)))
  await addTwice(stage, ids)
  await untilAllAreAsking(stage, ids)
  const [killed, stopped] = [rowsOf(victim, ids), rowsOf(sleeper, ids)]
  await Promise.all([victim.end('SIGKILL'), sleeper.pause()])
  screen.say(`kill -9: ${victim.name} died while it called the LLM for rows ${and(killed)}.`, 'red')
  screen.say(
    `SIGSTOP: ${sleeper.name} stands still while it calls for rows ${and(stopped)}, and does not know.`,
    'yellow',
  )
  answers.knock()
  const interrupted = [...killed, ...stopped]
  await Promise.all([messagesComeAgain(stage, interrupted), isUnguarded || rowsAreTakenBack(stage, interrupted)])
  await untilDone(stage)
  const { calls, billed, rowsPaidTwice } = llm.bill(ids)
  const sum = `${ids.length} rows, ${2 * ids.length} messages, ${calls} calls, ${billed} billed.`
  if (isUnguarded) screen.say(`Damage: ${sum} ${rowsPaidTwice} rows were billed twice or more.`, 'red')
  else
    screen.say(`Right: ${sum} The LLM knew the key of ${calls - billed} calls, and did not bill them again.`, 'green')
  return { interrupted, late: await wake(stage, sleeper) }
}

/** The visibility of the messages expires in SQS. */
async function messagesComeAgain({ crew, screen, isUnguarded, signal }: Stage, rows: readonly number[]): Promise<void> {
  await until(() => crew.deliveredAgain(rows).length === rows.length, signal)
  const again = `Delivered again: nobody extended ${rows.length} messages for ${VISIBILITY}, so SQS gave them to another consumer.`
  if (isUnguarded) return screen.say(`${again} It called the LLM again for each.`, 'red')
  const dropped = refused(crew.deliveredAgain(rows))
  screen.say(`${again} For ${dropped} it found the row claimed, called nobody, and deleted the message.`, 'green')
}

/** Recovery finds that the claims of the rows were not renewed. */
async function rowsAreTakenBack({ database, screen, signal }: Stage, rows: readonly number[]): Promise<void> {
  await until(async () => (await database.count(reclaimed(rows))) === rows.length, signal)
  screen.say(
    `Taken back: nobody renewed the claims of ${rows.length} rows for ${STUCK_AFTER}. Recovery made them pending again and ` +
      'sent new messages.',
    'green',
  )
}

/** Returns the outcomes of the deliveries that it held. */
async function wake({ database, screen, isUnguarded, signal }: Stage, sleeper: ConsumerProcess): Promise<Settled[]> {
  screen.say(
    `SIGCONT: ${sleeper.name} goes on. The answers to its ${CONCURRENCY} calls have come meanwhile …`,
    'yellow',
  )
  const damage = () => database.count(OVERWRITTEN)
  const [damageBefore, before] = [await damage(), sleeper.settled.length]
  await sleeper.wake()
  await until(() => sleeper.settled.length >= before + CONCURRENCY, signal)
  const late = sleeper.settled.slice(before)
  const damageAfter = await damage()
  const overwritten = `${damageAfter - damageBefore} finished results were overwritten.`
  const inAll = `With those that duplicates have overwritten in both acts that makes ${damageAfter}.`
  if (isUnguarded) screen.say(`… and it writes them: ${overwritten} ${inAll}`, 'red')
  else {
    const why = `${refused(late)} of ${CONCURRENCY} commits were refused, since the claims are not its own any more.`
    screen.say(`… too late: ${why} ${overwritten}`, 'green')
  }
  return late
}

async function oddOnes(stage: Stage): Promise<void> {
  stage.screen.say('Act 3, odd ones: a message that is no JSON, one before its row, and a row without one.', 'bold')
  await Promise.all([poison(stage), early(stage), lost(stage)])
  await untilDone(stage)
}

async function poison({ crew, queue, screen, signal }: Stage): Promise<void> {
  await queue.send(POISON)
  await until(() => crew.settled.some(({ outcome }) => outcome === 'dead_letter'), signal)
  const [letter] = await queue.deadLetters()
  screen.say(`Poison: "${letter?.body}" went to the dead-letter queue, with the reason: ${letter?.reason}.`, 'green')
}

async function early({ crew, database, queue, screen, signal }: Stage): Promise<void> {
  const id = ROWS.early
  const deliveries = () => crew.settled.filter((settled) => settled.id === id)
  await queue.publish([id])
  await until(() => deliveries().length > 0, signal)
  const came = `Early: the message about row ${id} came before the row`
  if (deliveries()[0]?.outcome === 'returned') screen.say(`${came}, and was handed back.`, 'yellow')
  else screen.say(`${came}. The LLM was called, no row changed, and the message deleted.`, 'red')
  await database.addRows([id])
  const later = () => deliveries().slice(1)
  await until(() => later().some(({ outcome }) => outcome === 'handled'), signal)
  screen.say(`Early: row ${id} is there now, and has its summary.`, 'green')
}

async function lost({ crew, database, screen, signal }: Stage): Promise<void> {
  const id = ROWS.lost
  await database.addRows([id])
  screen.say(`Lost: row ${id} was committed, but its message was never sent.`, 'yellow')
  await until(() => crew.settled.some((settled) => settled.id === id), signal)
  screen.say(`Lost: nobody came for row ${id} for ${RESEND_AFTER}, so recovery sent a message.`, 'green')
}

/** The rows first, then their messages. */
async function addTwice({ database, queue }: Stage, ids: readonly number[]): Promise<void> {
  await database.addRows(ids)
  await Promise.all([queue.publish(ids), queue.publish(ids)])
}

/** While the LLM replies to none. Each is then in the middle of as many calls as it can be, and it is certain of which. */
async function untilAllAreAsking({ crew, llm, signal }: Stage, ids: readonly number[]): Promise<void> {
  const isAsking = (consumer: ConsumerProcess) => consumer.asked(ids).length === CONCURRENCY
  await until(() => llm.bill(ids).calls === CONSUMERS * CONCURRENCY && crew.all.every(isAsking), signal)
}

function rowsOf(consumer: ConsumerProcess, ids: readonly number[]): number[] {
  return [...new Set(consumer.asked(ids))].sort((a, b) => a - b)
}

/** Resolves when every row has its summary, and SQS no message any more. */
async function untilDone({ database, queue, signal }: Stage): Promise<void> {
  await database.untilFinished(signal)
  await until(async () => (await queue.left()) === 0, signal)
}

/** Those that learned that the row is not theirs to change. */
export function refused(settled: readonly Settled[]): number {
  return settled.filter(({ outcome }) => outcome === 'already_handled').length
}
