// `npm run demo:outbox`: payments leave one database for another through SQS and NATS, while tills, relays, receivers and brokers
// are killed. Exits 0 if nothing is lost or doubled at the end.
//
// The plot is in story.ts, the processes in till.ts, relay.ts and receiver.ts, the checks at the end in verdict.ts.
import { ProgramMissingError } from '../../tools/debian.ts'
import { type PostgresServer, startPostgres } from '../../tools/postgres.ts'
import { perform, runProgram, UsageError, unlessAborted } from '../program.ts'
import { Screen } from '../screen.ts'
import { Brokers } from './brokers.ts'
import { Crew } from './crew.ts'
import { Databases } from './databases.ts'
import { SECONDS_AT_MOST } from './scale.ts'
import { tellStory } from './story.ts'
import { judge } from './verdict.ts'
import { openingWords, showVerdict, whatElse } from './words.ts'

const USAGE = `Usage: npm run demo:outbox -- [--unprotected]
  --unprotected   publish after the commit, acknowledge before the effect: see what outbox and inbox are for`

async function demo({ unprotected: isUnprotected }: { unprotected: boolean }, end: AbortController): Promise<boolean> {
  if (process.platform === 'win32') throw new UsageError('The demo kills processes by signals, which Windows lacks.')
  const { signal } = end
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true' // It would stand in the middle of the story.
  const screen = new Screen()
  screen.print(openingWords(screen, isUnprotected))
  const brokers = await Brokers.start().catch((error) => {
    throw error instanceof ProgramMissingError ? new UsageError(error.message) : error
  })
  const starting = startPostgres()
  const opening = starting.then(({ url }) => Databases.create(url))
  const places = opening.then(({ shopUrl, officeUrl }) => {
    const { sqs, queueUrl, natsUrls } = brokers
    return { shopUrl, officeUrl, sqs, queueUrl, natsUrls, isUnprotected }
  })
  places.catch(() => {}) // `opening` reports it.
  const crew = new Crew({ places, onLost: (error) => end.abort(error) })
  let server: PostgresServer | undefined
  let databases: Databases | undefined
  const clear = async () => {
    await Promise.all([brokers.stop(), databases?.close()])
    await server?.stop()
  }
  return perform({ end, screen, crew, secondsAtMost: SECONDS_AT_MOST, clear }, async () => {
    server = await unlessAborted(starting, signal)
    databases = await unlessAborted(opening, signal)
    await unlessAborted(tellStory({ brokers, databases, crew, screen, isUnprotected, signal }), signal)
    const right = showVerdict(screen, await judge(databases, isUnprotected), isUnprotected)
    screen.print(whatElse(screen, isUnprotected))
    return right
  })
}

process.exitCode = await runProgram({ usage: USAGE, flags: ['unprotected'], run: demo })
