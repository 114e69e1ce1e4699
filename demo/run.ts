// `npm run demo`: a shop whose workers are killed, paused and cut off while it is open. Exits 0 if all is well at the end.
//
// The plot is in story.ts, the faults of the workers in crew.ts, the checks at the end in verdict.ts.
import { once } from 'node:events'
import { startPostgres } from '../tools/postgres.ts'
import { Crew } from './crew.ts'
import { alarmAfter, runProgram, UsageError, unlessAborted } from './program.ts'
import { SECONDS_AT_MOST } from './scale.ts'
import { Screen } from './screen.ts'
import { Shop } from './shop.ts'
import { tellStory } from './story.ts'
import { openingWords, showVerdict, whatElse, whereToLook } from './words.ts'

const USAGE = `Usage: npm run demo -- [--unfenced] [--stay]
  --unfenced   receipts are not part of the transaction that ends their job: see what the fence is for
  --stay       the database stays up at the end, until Ctrl-C`

async function demo(flags: { unfenced: boolean; stay: boolean }, end: AbortController): Promise<boolean> {
  if (process.platform === 'win32') throw new UsageError('The demo pauses processes, which Windows cannot do.')
  const mode = flags.unfenced ? 'unfenced' : 'fenced'
  const screen = new Screen()
  screen.print(openingWords(screen, mode))
  const server = await unlessAborted(startPostgres(), end.signal)
  const crew = new Crew({ url: server.url, mode, onLost: (error) => end.abort(error) })
  const alarm = alarmAfter(SECONDS_AT_MOST, end)
  let shop: Shop | undefined
  try {
    shop = await Shop.open(server.url)
    screen.say('PostgreSQL is up.')
    await unlessAborted(tellStory({ shop, crew, screen, mode, signal: end.signal }), end.signal)
    clearTimeout(alarm)
    screen.keep()
    const right = await showVerdict(screen, shop.pool, mode)
    screen.print(flags.stay ? whereToLook(server.url) : whatElse(screen, mode))
    if (flags.stay) await once(end.signal, 'abort')
    return right
  } finally {
    clearTimeout(alarm)
    screen.close()
    await crew.killAll()
    await shop?.close()
    await server.stop()
  }
}

process.exitCode = await runProgram({ usage: USAGE, flags: ['unfenced', 'stay'], run: demo })
