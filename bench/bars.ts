/** What was promised of a run, as ratios within it. A missed one is news, not an error. */
import type { ContenderName } from './contenders/names.ts'
import type { Measure, Results, Subject } from './results.ts'

export interface Ratio {
  readonly name: string
  readonly value: number
  /** Null: told, not promised. */
  readonly bar: string | null
  readonly holds: boolean | null
}

type Find = (scenario: string, contender: Subject, measure: Measure) => number | null

interface Bar {
  readonly name: string
  readonly value: (find: Find) => number | null
  readonly least?: number
  readonly most?: number
}

const PEERS: readonly ContenderName[] = ['graphile-worker', 'pg-boss', 'bullmq']

const BARS: readonly Bar[] = [
  speed('drain, kept ÷ its floor', 'drain', 'leasehold', 'floor', 0.7),
  speed('drain, not kept ÷ its floor', 'drain', 'leasehold-not-kept', 'floor-not-kept', 0.7),
  speed('drain, kept ÷ not kept', 'drain', 'leasehold', 'leasehold-not-kept', 0.7),
  speed('drain, not kept ÷ graphile-worker', 'drain', 'leasehold-not-kept', 'graphile-worker', 2),
  speed('drain, kept ÷ graphile-worker', 'drain', 'leasehold', 'graphile-worker', 1.6),
  speed('drain, not kept ÷ pg-boss', 'drain', 'leasehold-not-kept', 'pg-boss', 5),
  {
    name: 'processor time per job, not kept ÷ graphile-worker',
    value: (find) => quotient(cost(find, 'drain', 'leasehold-not-kept'), cost(find, 'drain', 'graphile-worker')),
    most: 0.6,
  },
  speed('never analyzed, not kept ÷ graphile-worker', 'never-analyzed', 'leasehold-not-kept', 'graphile-worker', 4),
  speedOfBest('bulk enqueue ÷ best peer', 'enqueue', 1.8),
  speedOfBest('steady, kept ÷ best peer', 'steady', 1.8),
  speedOfBest('one job at a time ÷ best peer', 'batch-1', 1),
  speedOfBest('enqueue in a transaction, median ÷ best peer', 'single', 1, 'perSecondAtP50'),
  latencyOfBest('idle latency, median ÷ best peer', 'idle', 'p50Ms', 1),
  latencyOfBest('idle latency, p99 ÷ best peer', 'idle', 'p99Ms', 1),
  burden('a million jobs wait', 'backlog', 1.3),
  burden('a million scheduled and a million finished beside', 'scheduled', 1.3),
  burden('20,000 in flight elsewhere', 'in-flight', 1.3),
  burden('a snapshot is held', 'held-snapshot', 1.2),
  {
    name: 'memory after all ÷ after a tenth',
    value: (find) =>
      quotient(find('memory at 100 %', 'leasehold', 'rssMiB'), find('memory at 10 %', 'leasehold', 'rssMiB')),
    most: 1.2,
  },
  ...PEERS.flatMap((peer) => [
    told(peer, 'a million jobs wait', 'backlog'),
    told(peer, 'a snapshot is held', 'held-snapshot'),
  ]),
]

/** Of what was measured; the rest is left out. */
export function ratios(results: Results): Ratio[] {
  const find: Find = (scenario, contender, measure) => results.find(scenario, contender, measure)?.median ?? null
  return BARS.flatMap(({ name, value, least, most }): Ratio[] => {
    const found = value(find)
    if (found === null) return []
    if (least !== undefined) return [{ name, value: found, bar: `>= ${least}`, holds: found >= least }]
    if (most !== undefined) return [{ name, value: found, bar: `<= ${most}`, holds: found <= most }]
    return [{ name, value: found, bar: null, holds: null }]
  })
}

function speed(name: string, scenario: string, contender: ContenderName, other: ContenderName, least: number): Bar {
  const of = (find: Find, which: ContenderName) => find(scenario, which, 'jobsPerSecond')
  return { name, value: (find) => quotient(of(find, contender), of(find, other)), least }
}

function speedOfBest(name: string, scenario: string, least: number, measure: Measure = 'jobsPerSecond'): Bar {
  const best = (find: Find) => Math.max(...known(find, scenario, measure))
  return { name, value: (find) => quotient(find(scenario, 'leasehold', measure), best(find)), least }
}

function latencyOfBest(name: string, scenario: string, measure: Measure, most: number): Bar {
  const best = (find: Find) => Math.min(...known(find, scenario, measure))
  return { name, value: (find) => quotient(find(scenario, 'leasehold', measure), best(find)), most }
}

function burden(what: string, scenario: string, most: number): Bar {
  return { name: `cost per job when ${what}`, value: (find) => find(scenario, 'leasehold', 'costRatio'), most }
}

function told(peer: ContenderName, what: string, scenario: string): Bar {
  return { name: `${peer}: cost per job when ${what}`, value: (find) => find(scenario, peer, 'costRatio') }
}

function known(find: Find, scenario: string, measure: Measure): number[] {
  return PEERS.map((peer) => find(scenario, peer, measure)).filter((value) => value !== null)
}

/** Node and the database together. */
function cost(find: Find, scenario: string, contender: ContenderName): number | null {
  const node = find(scenario, contender, 'nodeMicrosPerJob')
  const database = find(scenario, contender, 'databaseMicrosPerJob')
  return node === null || database === null ? null : node + database
}

function quotient(value: number | null, by: number | null): number | null {
  return value === null || by === null || !Number.isFinite(by) ? null : value / by
}
