// `npm run demo:effects`: effects outside the database under duplicate messages, and the use of a short lock. Exits 0 if the
// end is as expected, the damage of the naive ways included.
//
// The plots are in summary-story.ts and incident-story.ts, the ways to handle a message in summaries.ts and incidents.ts,
// the checks at the end in verdict.ts.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type PostgresServer, startPostgres } from '../../tools/postgres.ts'
import { Llm } from '../llm.ts'
import { alarmAfter, runProgram, unlessAborted } from '../program.ts'
import { Screen } from '../screen.ts'
import { STUCK_AFTER } from '../summary.ts'
import { startCatalogue } from './catalogue.ts'
import { Crew } from './crew.ts'
import { Database } from './database.ts'
import { playRace } from './incident-story.ts'
import { ToyQueue } from './queue.ts'
import { BEAT_MS, SECONDS_AT_MOST, WORKERS, waysOfActs } from './scale.ts'
import type { Stage } from './stage.ts'
import { playAct } from './summary-story.ts'
import { incidentTitle, openingWords, rows, showVerdict, summaryTitle, whatElse, whereToLook } from './words.ts'

const USAGE = `Usage: npm run demo:effects -- [--unguarded] [--stay]
  --unguarded   the claim and the guard are left out: see what they are for
  --stay        the database stays up at the end, until Ctrl-C`

async function demo(flags: { unguarded: boolean; stay: boolean }, end: AbortController): Promise<boolean> {
  const { signal } = end
  const screen = new Screen()
  screen.print(openingWords(screen, flags.unguarded))
  const [llm, catalogue] = await Promise.all([Llm.start(), startCatalogue()])
  const starting = startPostgres()
  const crew: Crew = new Crew({
    databaseUrl: starting.then(({ url }) => url),
    env: { LLM_URL: llm.url, CATALOGUE_URL: catalogue.url },
    onLost: (error) => end.abort(error),
    onPublish: (ids) => {
      screen.say(
        `Taken back: ${rows(ids)}. Their holder was silent for ${STUCK_AFTER}, so they get new messages.`,
        'green',
      )
      for (const id of ids) void queue.deliver(id)
    },
  })
  const queue = new ToyQueue(crew, signal)
  const alarm = alarmAfter(SECONDS_AT_MOST, end)
  let server: PostgresServer | undefined
  let database: Database | undefined
  try {
    const hired = Promise.all(Array.from({ length: WORKERS }, () => crew.hire()))
    server = await unlessAborted(starting, signal)
    database = await Database.open(server.url)
    await unlessAborted(hired, signal)
    screen.say('PostgreSQL and the workers are up.')
    const stage = { database, llm, catalogue, queue, crew, screen, signal, isUnguarded: flags.unguarded }
    await unlessAborted(tellStories(stage), signal)
    clearTimeout(alarm)
    const right = await showVerdict(stage)
    screen.print(flags.stay ? whereToLook(server.url) : whatElse(screen, flags.unguarded))
    if (flags.stay) await once(signal, 'abort')
    return right
  } finally {
    clearTimeout(alarm)
    screen.close()
    await crew.killAll()
    await Promise.all([llm.stop(), catalogue.stop(), database?.close()])
    await server?.stop()
  }
}

async function tellStories(stage: Stage): Promise<void> {
  const { crew, screen, isUnguarded, signal } = stage
  const beat = () => sleep(BEAT_MS, undefined, { signal })
  screen.print(summaryTitle(screen))
  for (const [index, way] of waysOfActs(isUnguarded).entries()) {
    await playAct(stage, index + 1, way)
    await beat()
  }
  screen.print(incidentTitle(screen))
  await playRace(stage, 1, false)
  await beat()
  await playRace(stage, 2, !isUnguarded)
  await crew.stop()
  screen.print('')
  screen.say('The workers got SIGTERM and are gone.')
  screen.print('')
}

process.exitCode = await runProgram({ usage: USAGE, flags: ['unguarded', 'stay'], run: demo })
