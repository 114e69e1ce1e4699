// `npm run demo`: a shop whose workers are killed, paused and cut off while it is open. Exits 0 if all is well at the end.
//
// The plot is in story.ts, what is done to the workers in crew.ts, what is true at the end in verdict.ts.
import { once } from 'node:events'
import { constants } from 'node:os'
import { parseArgs } from 'node:util'
import { startPostgres } from '../tools/postgres.ts'
import { Crew, type Mode } from './crew.ts'
import { ALL_ORDERS, SECONDS_AT_MOST } from './scale.ts'
import { Screen } from './screen.ts'
import { Shop } from './shop.ts'
import { tellStory } from './story.ts'
import { openingWords, showVerdict, whatElse, whereToLook } from './words.ts'

const USAGE = `Usage: npm run demo -- [--unfenced] [--stay]
  --unfenced   receipts are not part of the transaction that ends their job: see what the fence is for
  --stay       the database stays up at the end, until Ctrl-C`
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

class Interrupted extends Error {
  readonly exitCode: number

  constructor(signal: (typeof SIGNALS)[number]) {
    super(signal)
    this.exitCode = 128 + constants.signals[signal]
  }
}

class UsageError extends Error {}

function readArguments(): { mode: Mode; stay: boolean } {
  const flag = { type: 'boolean', default: false } as const
  try {
    const { unfenced, stay } = parseArgs({ options: { unfenced: flag, stay: flag } }).values
    return { mode: unfenced ? 'unfenced' : 'fenced', stay }
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Whether everything was as it should be. Nothing that was started is left when it returns or throws. */
async function demo({ mode, stay }: ReturnType<typeof readArguments>, end: AbortController): Promise<boolean> {
  const screen = new Screen(ALL_ORDERS)
  screen.print(openingWords(screen, mode))
  const server = await startPostgres()
  const crew = new Crew({ url: server.url, mode, onLost: (error) => end.abort(error) })
  const tooLong = new Error(`The demo was not over after ${SECONDS_AT_MOST} s.`)
  const alarm = setTimeout(() => end.abort(tooLong), SECONDS_AT_MOST * 1_000)
  let shop: Shop | undefined
  try {
    shop = await Shop.open(server.url)
    screen.say('PostgreSQL is up.')
    await unlessAborted(tellStory({ shop, crew, screen, mode, signal: end.signal }), end.signal)
    clearTimeout(alarm)
    screen.keep()
    const right = await showVerdict(screen, shop.pool, mode)
    screen.print(stay ? whereToLook(server.url) : whatElse(screen, mode))
    if (stay) await once(end.signal, 'abort')
    return right
  } finally {
    clearTimeout(alarm)
    screen.close()
    await crew.killAll()
    await shop?.close()
    await server.stop()
  }
}

/** As the work ends, unless the signal is aborted first: then nobody waits for the work, nor for how it ends. */
function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    work.then(resolve, reject)
    signal.addEventListener('abort', () => reject(signal.reason))
    if (signal.aborted) reject(signal.reason)
  })
}

async function main(): Promise<number> {
  const end = new AbortController()
  // Once: whoever asks again need not wait, and what is left then cleans up after itself.
  for (const signal of SIGNALS) process.once(signal, () => end.abort(new Interrupted(signal)))
  try {
    const options = readArguments()
    if (process.platform === 'win32') throw new UsageError('The demo pauses processes, which Windows cannot do.')
    return (await demo(options, end)) ? 0 : 1
  } catch (error) {
    if (error instanceof Interrupted) return error.exitCode
    console.error(error instanceof UsageError ? `${error.message}\n${USAGE}` : error)
    return error instanceof UsageError ? 2 : 1
  }
}

process.exitCode = await main()
