/** The tables for people. The JSON line holds the same figures, unrounded. */
import { columns, decimal } from '../columns.ts'
import type { Bar, Figure, Ratio, Results } from './results.ts'

export function tables(results: Results): string {
  const parts: string[] = []
  if (results.figures.length > 0) parts.push(figureTable(results.figures))
  if (results.ratios.length > 0) parts.push(ratioTable(results.ratios))
  if (results.bars.length > 0) parts.push(barTable(results.bars))
  return parts.join('\n\n')
}

function figureTable(figures: readonly Figure[]): string {
  const head = ['per job', 'phase', 'batch', 'bytes', 'design', 'jobs/s', 'db µs', 'node µs', 'other µs']
  return columns(
    [...head, 'WAL B', 'images B', 'HOT %', 'retries'],
    figures.map((figure) => [
      figure.scenario,
      figure.phase,
      String(figure.batch),
      String(figure.payloadBytes),
      figure.design,
      Math.round(figure.jobsPerSecond).toLocaleString('en'),
      decimal(figure.databaseMicros),
      decimal(figure.nodeMicros),
      decimal(figure.otherMicros),
      decimal(figure.walBytes, 0),
      decimal(figure.walImageBytes, 0),
      figure.hotShare === null ? '' : decimal(figure.hotShare * 100),
      String(figure.retries),
    ]),
    5,
  )
}

function ratioTable(ratios: readonly Ratio[]): string {
  return columns(
    ['burden', 'design', 'batch', 'jobs', 'calm µs', 'burdened µs', 'ratio', 'pairs', 'first claim ms'],
    ratios.map((ratio) => [
      ratio.scenario,
      ratio.design,
      String(ratio.batch),
      ratio.jobs.toLocaleString('en'),
      decimal(ratio.calmMicros),
      decimal(ratio.burdenedMicros),
      decimal(ratio.ratio, 2),
      ratio.pairs.map((pair) => decimal(pair, 2)).join(' '),
      decimal(ratio.firstClaimMs),
    ]),
    2,
  )
}

function barTable(bars: readonly Bar[]): string {
  return columns(
    ['bar', 'wanted', 'found', ''],
    bars.map((bar) => [
      bar.name,
      bar.bar,
      decimal(bar.value, 3),
      bar.holds === null ? 'not measured' : bar.holds ? 'holds' : 'MISSED',
    ]),
    4,
  )
}
