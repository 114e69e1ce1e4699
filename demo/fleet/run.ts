// `npm run demo:fleet`: workers join, are killed, stopped and replaced while jobs of many keys are to stay in order. Exits 0 if they did.
//
// The worker is in on-ring.ts, the plot in story.ts, the picture of the ring in picture.ts, the checks at the end in verdict.ts.
import { setTimeout as sleep } from 'node:timers/promises'
import { startPostgres } from '../../tools/postgres.ts'
import { perform, runProgram, UsageError, unlessAborted } from '../program.ts'
import { Screen } from '../screen.ts'
import { Accounts } from './accounts.ts'
import { Crew } from './crew.ts'
import { HEIGHT, Picture } from './picture.ts'
import { FRAME_MS, SECONDS_AT_MOST } from './scale.ts'
import { tellStory } from './story.ts'
import { judge } from './verdict.ts'
import { openingWords, showVerdict, whatElse } from './words.ts'

const USAGE = `Usage: npm run demo:fleet -- [--unprotected]
  --unprotected   the same on a ring made by hand: see what fence and order are for`

async function demo({ unprotected: isUnprotected }: { unprotected: boolean }, end: AbortController): Promise<boolean> {
  if (process.platform === 'win32') throw new UsageError('The demo kills processes by signals, which Windows lacks.')
  const { signal } = end
  const screen = new Screen(process.stdout, HEIGHT)
  screen.print(openingWords(screen, isUnprotected))
  const server = await unlessAborted(startPostgres(), signal)
  const crew = new Crew({ databaseUrl: server.url, isUnprotected, onLost: (error) => end.abort(error) })
  let accounts: Accounts | undefined
  const clear = async () => {
    await accounts?.close()
    await server.stop()
  }
  return perform({ end, screen, crew, secondsAtMost: SECONDS_AT_MOST, clear }, async () => {
    accounts = await unlessAborted(Accounts.open(server.url, isUnprotected), signal)
    const picture = new Picture(crew, accounts, screen)
    const isOver = new AbortController()
    const drawing = drawUntil(picture, AbortSignal.any([signal, isOver.signal]))
    const told = await unlessAborted(tellStory({ accounts, crew, picture, screen, isUnprotected, signal }), signal)
    isOver.abort()
    await drawing
    screen.keep()
    await crew.stop()
    const right = showVerdict(screen, await judge(accounts, told, isUnprotected), told, isUnprotected)
    screen.print(whatElse(screen, isUnprotected))
    return right
  })
}

async function drawUntil(picture: Picture, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await picture.draw().catch(() => {}) // The server may be gone when the demo is interrupted.
    await sleep(FRAME_MS, undefined, { signal }).catch(() => {})
  }
}

process.exitCode = await runProgram({ usage: USAGE, flags: ['unprotected'], run: demo })
