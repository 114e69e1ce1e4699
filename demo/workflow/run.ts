// `npm run demo:workflow`: orders go through a checkout of several steps while workers are killed and a new version is deployed. Exits 0 if
// every order was charged once, and shipped or refunded.
//
// The workflow is in checkout.ts, the plot in story.ts, the checks at the end in verdict.ts.
import { startPostgres } from '../../tools/postgres.ts'
import { perform, runProgram, UsageError, unlessAborted } from '../program.ts'
import { Screen } from '../screen.ts'
import { Crew } from './crew.ts'
import { LOST_ORDER, SECONDS_AT_MOST } from './scale.ts'
import { Services } from './services.ts'
import { Shop } from './shop.ts'
import { tellStory } from './story.ts'
import { judge } from './verdict.ts'
import { openingWords, showTimeline, showVerdict, whatElse } from './words.ts'

const USAGE = `Usage: npm run demo:workflow -- [--unprotected]
  --unprotected   the same by hand, as one plain job: see what steps on record are for`

async function demo({ unprotected: isUnprotected }: { unprotected: boolean }, end: AbortController): Promise<boolean> {
  if (process.platform === 'win32') throw new UsageError('The demo kills processes by signals, which Windows lacks.')
  const { signal } = end
  const screen = new Screen()
  screen.print(openingWords(screen, isUnprotected))
  const server = await unlessAborted(startPostgres(), signal)
  const services = await Services.start()
  const options = { databaseUrl: server.url, servicesUrl: services.url, isUnprotected }
  const crew = new Crew({ ...options, onLost: (error) => end.abort(error) })
  let shop: Shop | undefined
  const clear = async () => {
    await Promise.all([services.stop(), shop?.close()])
    await server.stop()
  }
  return perform({ end, screen, crew, secondsAtMost: SECONDS_AT_MOST, clear }, async () => {
    shop = await unlessAborted(Shop.open(server.url, isUnprotected), signal)
    const told = await unlessAborted(tellStory({ shop, services, crew, screen, isUnprotected, signal }), signal)
    const lost = isUnprotected ? undefined : await shop.run(LOST_ORDER)
    if (lost !== undefined) showTimeline(screen, lost)
    const right = showVerdict(screen, await judge(shop, services, told, isUnprotected), services, isUnprotected)
    screen.print(whatElse(screen, isUnprotected))
    return right
  })
}

process.exitCode = await runProgram({ usage: USAGE, flags: ['unprotected'], run: demo })
