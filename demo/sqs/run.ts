// `npm run demo:sqs`: three consumers of one SQS queue, of which one is killed and one stopped, and messages that arrive
// twice, early or not at all. Exits 0 if all is well at the end.
//
// The plot is in story.ts, how a message is handled in handlers.ts, the checks at the end in verdict.ts.
import { type PostgresServer, startPostgres } from '../../tools/postgres.ts'
import { startSqs } from '../../tools/sqs.ts'
import { Llm } from '../llm.ts'
import { perform, runProgram, UsageError, unlessAborted } from '../program.ts'
import { Screen } from '../screen.ts'
import { SummaryDatabase } from '../summary.ts'
import { Crew } from './crew.ts'
import { Queue } from './queue.ts'
import { CONSUMERS, SECONDS_AT_MOST } from './scale.ts'
import { tellStory } from './story.ts'
import { findings } from './verdict.ts'
import { openingWords, showVerdict, whatElse } from './words.ts'

const USAGE = `Usage: npm run demo:sqs -- [--unguarded]
  --unguarded   consumers claim no row and give the LLM no key: see what these are for`

async function demo({ unguarded: isUnguarded }: { unguarded: boolean }, end: AbortController): Promise<boolean> {
  if (process.platform === 'win32') throw new UsageError('The demo stops processes, which Windows cannot do.')
  const { signal } = end
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true' // It would stand in the middle of the story.
  const screen = new Screen()
  screen.print(openingWords(screen, isUnguarded))
  const [sqs, llm] = await Promise.all([startSqs(), Llm.start()])
  const queue = await Queue.create(sqs)
  const starting = startPostgres()
  const opening = starting.then(({ url }) => openDatabase(url))
  const orders = opening.then(({ url: databaseUrl }) => {
    const { url: queueUrl, deadLetterUrl: deadLetterQueueUrl } = queue
    return { databaseUrl, sqs: sqs.config, queueUrl, deadLetterQueueUrl, llm: llm.url, isUnguarded }
  })
  const crew = new Crew({ orders, onLost: (error) => end.abort(error) })
  let server: PostgresServer | undefined
  let database: SummaryDatabase | undefined
  const clear = async () => {
    await Promise.all([sqs.stop(), llm.stop(), database?.close()])
    await server?.stop()
  }
  return perform({ end, screen, crew, secondsAtMost: SECONDS_AT_MOST, clear }, async () => {
    const hired = Promise.all(Array.from({ length: CONSUMERS }, () => crew.hire()))
    server = await unlessAborted(starting, signal)
    database = await unlessAborted(opening, signal)
    await unlessAborted(hired, signal)
    const stage = { sqs, database, queue, llm, crew, screen, isUnguarded, signal }
    const told = await unlessAborted(tellStory(stage), signal)
    const right = showVerdict(screen, await findings(stage, told), llm, isUnguarded)
    screen.print(whatElse(screen, isUnguarded))
    return right
  })
}

async function openDatabase(url: string): Promise<SummaryDatabase> {
  const database = new SummaryDatabase(url)
  await database.createTables()
  return database
}

process.exitCode = await runProgram({ usage: USAGE, flags: ['unguarded'], run: demo })
