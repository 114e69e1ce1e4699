/** docs/benchmarks.md and its chart. Only output of a run is written there; the prose around it stays. */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Report } from './report.ts'
import { asMarkdown, figureTables, nameOf, ratioTable } from './tables.ts'

const PAGE = new URL('../docs/benchmarks.md', import.meta.url)
const CHART = new URL('../docs/benchmarks.svg', import.meta.url)
const BEGIN = '<!-- figures: written by npm run bench -- --write-docs -->'
const END = '<!-- end of figures -->'

export async function writeDocumentation(report: Report): Promise<void> {
  const page = readFileSync(PAGE, 'utf8')
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (from === -1 || to < from) throw new Error(`docs/benchmarks.md has no place for figures: ${BEGIN} … ${END}`)
  writeFileSync(PAGE, `${page.slice(0, from)}${BEGIN}\n\n${figures(report)}\n\n${page.slice(to)}`)
  // Its library is among the packages of bench/, which the rest of the repository does not use.
  const chart: { draw(report: Report): string } = await import(new URL('chart.ts', import.meta.url).href)
  writeFileSync(CHART, chart.draw(report))
}

/** What the names in the tables and in the chart mean. */
const WORDS = [
  '- **kept**, or plain `leasehold`: a finished job stays in the archive for 7 days, as is the default.',
  '- **not kept**, `leasehold-not-kept`: the kind has `keep: false`, and a job is deleted when it is completed. There is less ' +
    'to write, and nothing to look up afterwards. graphile-worker always does that; pg-boss and BullMQ keep finished jobs.',
  "- **worker's side**: processor time of the worker's process and of the backends that serve it. The producer's backends " +
    'are counted apart, and the background processes of the server neither way.',
  '- **statements/job, commits/job**: what the worker process sent, and the transactions that it ended.',
  '- In the chart a bar is the median, and the line across its end reaches from the smallest to the largest round.',
]

function figures(report: Report): string {
  const { machine, versions, settings, ratios } = report
  const memory = `${Math.round(machine.memoryGiB)} GiB of memory`
  const where = `${machine.processor}, ${machine.cores} cores, ${memory}, PostgreSQL ${versions.postgres}, Node ${versions.node}.`
  const how = Object.entries(settings).map(([name, { version, why }]) => `- **${nameOf(name)}** ${version}. ${why}`)
  const tables = [...figureTables(report.figures), ratioTable(ratios)].map(asMarkdown)
  return [
    `Measured on: ${where}`,
    WORDS.join('\n'),
    ...tables,
    '**settings, and why they are the best of each**',
    how.join('\n'),
  ].join('\n\n')
}
