/** The picture of docs/benchmarks.md: four panels of bars. */
import * as echarts from 'echarts'
import type { Report } from './report.ts'
import type { Figure, Measure } from './results.ts'

interface Panel {
  readonly title: string
  readonly scenario: string
  /** Added up. */
  readonly measures: readonly Measure[]
  readonly contenders: readonly string[]
}

const QUEUES = ['leasehold', 'leasehold-not-kept', 'graphile-worker', 'pg-boss', 'bullmq']

const PANELS: readonly Panel[] = [
  { title: 'Drain, jobs/s', scenario: 'drain', measures: ['jobsPerSecond'], contenders: QUEUES },
  { title: 'Bulk enqueue, jobs/s', scenario: 'enqueue', measures: ['jobsPerSecond'], contenders: QUEUES },
  { title: 'Enqueue and drain at once, jobs/s', scenario: 'steady', measures: ['jobsPerSecond'], contenders: QUEUES },
  {
    title: 'Processor time of a drained job, µs (less is better)',
    scenario: 'drain',
    measures: ['nodeMicrosPerJob', 'databaseMicrosPerJob'],
    // BullMQ's bar would leave a pixel for the others.
    contenders: QUEUES.filter((queue) => queue !== 'bullmq'),
  },
]
const SIZE = { width: 880, panel: 190 }
// Legible on white and on near-black: pages are shown in both.
const TEXT = '#7d8590'
const OURS = '#2f81f7'
const THEIRS = '#8c959f'

export function draw({ figures }: Report): string {
  const panels = PANELS.filter(({ scenario }) => figures.some((figure) => figure.scenario === scenario))
  const rows = Math.ceil(panels.length / 2)
  const size = { width: SIZE.width, height: rows * SIZE.panel }
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, ...size })
  const cell = (at: number) => ({ left: (at % 2) * 50, top: Math.floor(at / 2) * SIZE.panel })
  chart.setOption({
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: 'system-ui, sans-serif', color: TEXT },
    title: panels.map(({ title }, at) => ({
      text: title,
      left: `${cell(at).left}%`,
      top: cell(at).top,
      textStyle: { color: TEXT, fontSize: 14, fontWeight: 600 },
    })),
    grid: panels.map((_, at) => ({
      left: `${cell(at).left + 16}%`,
      top: cell(at).top + 30,
      width: '26%',
      height: SIZE.panel - 55,
    })),
    xAxis: panels.map((_, at) => ({ type: 'value', gridIndex: at, show: false })),
    yAxis: panels.map(({ contenders }, at) => ({
      type: 'category',
      gridIndex: at,
      inverse: true,
      data: contenders,
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { color: TEXT, fontSize: 12 },
    })),
    series: panels.map((panel, at) => ({
      type: 'bar',
      xAxisIndex: at,
      yAxisIndex: at,
      barWidth: 17,
      data: panel.contenders.map((contender) => bar(figures, panel, contender)),
      label: {
        show: true,
        position: 'right',
        color: TEXT,
        fontSize: 12,
        formatter: ({ value }: { value: unknown }) => label(Number(value)),
      },
    })),
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  return `${svg}\n`
}

function bar(figures: readonly Figure[], { scenario, measures }: Panel, contender: string) {
  const own = figures.filter((figure) => figure.scenario === scenario && figure.contender === contender)
  const parts = measures.map((measure) => own.find((figure) => figure.measure === measure)?.median)
  const value = parts.some((part) => part === undefined) ? 0 : parts.reduce((total: number, part) => total + part!, 0)
  return { value, itemStyle: { color: contender.startsWith('leasehold') ? OURS : THEIRS } }
}

function label(value: number): string {
  const step = value < 1_000 ? 1 : 100
  return value === 0 ? '' : (Math.round(value / step) * step).toLocaleString('en')
}
