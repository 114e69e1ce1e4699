/** The picture of docs/benchmarks.md: panels of bars, each with the spread of its rounds. */
import * as echarts from 'echarts'
import type { Report } from './report.ts'
import type { Figure, Measure } from './results.ts'
import { nameOf } from './tables.ts'

interface Panel {
  readonly title: string
  readonly scenario: string
  /** Added up. */
  readonly measures: readonly Measure[]
  readonly subjects: readonly string[]
}

interface Bar {
  readonly median: number
  readonly min: number
  readonly max: number
}

const QUEUES = ['leasehold', 'leasehold-not-kept', 'graphile-worker', 'pg-boss', 'bullmq']
// BullMQ's bar would leave a pixel for the others.
const WITHOUT_BULLMQ = QUEUES.filter((queue) => queue !== 'bullmq')
const BOTH_SIDES: readonly Measure[] = ['nodeMicrosPerJob', 'databaseMicrosPerJob']

const PANELS: readonly Panel[] = [
  {
    title: 'Drain, jobs/s (higher is better)',
    scenario: 'drain',
    measures: ['jobsPerSecond'],
    subjects: QUEUES,
  },
  {
    title: 'Drain, processor µs/job (lower is better)',
    scenario: 'drain',
    measures: BOTH_SIDES,
    subjects: WITHOUT_BULLMQ,
  },
  {
    title: 'Bulk enqueue, jobs/s (higher is better)',
    scenario: 'enqueue',
    measures: ['jobsPerSecond'],
    subjects: QUEUES,
  },
  {
    title: 'Enqueue and drain at once, jobs/s (higher is better)',
    scenario: 'steady',
    measures: ['jobsPerSecond'],
    subjects: QUEUES,
  },
  {
    title: "Jobs trickle in, worker's µs/job (lower is better)",
    scenario: 'trickle-50',
    measures: ['workerMicrosPerJob'],
    subjects: WITHOUT_BULLMQ,
  },
  {
    title: '8 worker processes, processor µs/job (lower is better)',
    scenario: 'workers',
    measures: BOTH_SIDES,
    subjects: ['leasehold × 8', 'leasehold-not-kept × 8', 'graphile-worker × 8'],
  },
]
const FONT = 'system-ui, sans-serif'
const SIZE = { width: 880, panel: 190, row: 27 }
// In percent of the width, within a panel that has half of it.
const BARS = { left: 19, width: 22 }
const CAP = 4
// Legible on white and on near-black: pages are shown in both.
const TEXT = '#7d8590'
const OURS = '#2f81f7'
const THEIRS = '#8c959f'
const SPREAD = '#d29922'

export function draw({ figures }: Report): string {
  const panels = PANELS.map((panel) => ({
    ...panel,
    bars: panel.subjects.map((subject) => bar(figures, panel, subject)),
  })).filter(({ bars }) => bars.some((found) => found !== null))
  const rows = Math.ceil(panels.length / 2)
  const size = { width: SIZE.width, height: rows * SIZE.panel }
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, ...size })
  const cell = (at: number) => ({ left: (at % 2) * 50, top: Math.floor(at / 2) * SIZE.panel })
  chart.setOption({
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: FONT, color: TEXT },
    title: panels.map(({ title }, at) => ({
      text: title,
      left: `${cell(at).left}%`,
      top: cell(at).top,
      textStyle: { color: TEXT, fontSize: 14, fontWeight: 600 },
    })),
    grid: panels.map(({ subjects }, at) => ({
      left: `${cell(at).left + BARS.left}%`,
      top: cell(at).top + 30,
      width: `${BARS.width}%`,
      height: subjects.length * SIZE.row,
    })),
    xAxis: panels.map((_, at) => ({ type: 'value', gridIndex: at, show: false, min: 0 })),
    yAxis: panels.map(({ subjects }, at) => ({
      type: 'category',
      gridIndex: at,
      inverse: true,
      data: subjects.map((subject) => nameOf(subject).replace(' (', '\n(')),
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { color: TEXT, fontSize: 12, lineHeight: 13 },
    })),
    series: panels.flatMap(({ subjects, bars }, at) => [
      {
        type: 'bar',
        xAxisIndex: at,
        yAxisIndex: at,
        barWidth: 17,
        data: bars.map((found, row) => ({
          value: found?.median ?? 0,
          itemStyle: { color: subjects[row]!.startsWith('leasehold') ? OURS : THEIRS },
        })),
      },
      {
        type: 'custom',
        xAxisIndex: at,
        yAxisIndex: at,
        encode: { x: [0, 1, 2], y: 3 },
        data: bars.flatMap((found, row) => (found === null ? [] : [[found.median, found.min, found.max, row]])),
        renderItem: whisker,
      },
    ]),
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  return `${svg}\n`
}

/** A line from the smallest to the largest round, and the median in figures beside it. */
function whisker(
  _: unknown,
  api: { value(at: number): number | string; coord(point: readonly [number, number]): number[] },
) {
  const [median, min, max, row] = [0, 1, 2, 3].map((at) => Number(api.value(at))) as [number, number, number, number]
  const [from, y] = api.coord([min, row]) as [number, number]
  const [to] = api.coord([max, row]) as [number]
  const line = (x1: number, y1: number, x2: number, y2: number) => {
    return { type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: SPREAD, lineWidth: 1.5 } }
  }
  const spread =
    min === max ? [] : [line(from, y, to, y), line(from, y - CAP, from, y + CAP), line(to, y - CAP, to, y + CAP)]
  const text = { text: label(median), x: to + 6, y, fill: TEXT, font: `12px ${FONT}`, verticalAlign: 'middle' }
  return { type: 'group', children: [...spread, { type: 'text', style: text }] }
}

/** Null when it took no part. */
function bar(figures: readonly Figure[], { scenario, measures }: Panel, subject: string): Bar | null {
  const own = figures.filter((figure) => figure.scenario === scenario && figure.contender === subject)
  const parts = measures.map((measure) => own.find((figure) => figure.measure === measure))
  if (parts.some((part) => part === undefined)) return null
  const rounds = parts[0]!.rounds.map((_, at) => parts.reduce((total, part) => total + part!.rounds[at]!, 0))
  const median = parts.reduce((total, part) => total + part!.median, 0)
  return { median, min: Math.min(...rounds), max: Math.max(...rounds) }
}

function label(value: number): string {
  const step = value < 1_000 ? 1 : 100
  return (Math.round(value / step) * step).toLocaleString('en')
}
