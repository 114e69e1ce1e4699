/**
 * Compares the evidence with the promises of docs/workflows.md. It shares no code with the library: it computes from the programs of the
 * plan what must come of them, and compares that with the views and with what the processes noted.
 */
import { type Finding, finding } from '../common/finding.ts'
import type { Line } from '../common/witness.ts'
import { compensations, ends, results, rolledBack, sameId } from './rules/ends.ts'
import { factsOf, type History } from './rules/history.ts'
import { againOnlyAfterTrouble, effects, knownResults, notAgain, oneWorker, timelines } from './rules/steps.ts'
import { firstStays, inOrder, received, sentOnce, sleeps, startedOnce } from './rules/waits.ts'

/** Grace and the last statements; the rest is for a busy machine. */
const LEAVES_WITHIN_MS = 25_000

export type { History } from './rules/history.ts'

export function check(history: History): Finding[] {
  const facts = factsOf(history)
  return [
    ends(facts),
    results(facts),
    rolledBack(facts),
    sameId(facts),
    compensations(facts),
    effects(facts),
    notAgain(facts),
    againOnlyAfterTrouble(facts),
    knownResults(facts),
    oneWorker(facts),
    timelines(facts),
    received(facts),
    inOrder(facts),
    sentOnce(facts),
    firstStays(facts),
    sleeps(facts),
    startedOnce(facts),
    settled(history.lines),
    processes(history.lines),
  ]
}

function settled(lines: readonly Line[]): Finding {
  const stuck = lines.filter(({ e }) => e === 'stuck').map(({ what }) => String(what))
  return finding('everything came to its end in time', 1, stuck)
}

function processes(lines: readonly Line[]): Finding {
  const ended = lines.filter(({ e }) => e === 'end')
  const dying = new Set(lines.filter(({ e }) => e === 'dies').map(({ p }) => p))
  const broken = ended.flatMap(({ who, struck, code, tookMs, stderr, signal }) => {
    const how = `code ${code}, signal ${signal}: ${stderr}`
    if (struck === undefined && !dying.has(String(who))) return [`${who} ended by itself, ${how}`]
    if (struck !== 'SIGTERM') return []
    if (code !== 0) return [`${who} was asked to leave and ended with ${how}`]
    return Number(tookMs) > LEAVES_WITHIN_MS ? [`${who} left after ${Math.round(Number(tookMs))} ms`] : []
  })
  return finding('processes end only when asked to or killed, and leave in time', ended.length, broken)
}
