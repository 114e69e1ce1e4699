/** The promises about a run, as ratios within it. A missed one is printed, not an error. */
import type { ContenderName } from './contenders/names.ts'
import { CLAIM_LINES, FEW_WAIT } from './order-lines.ts'
import type { Measure, Results, Subject } from './results.ts'
import { CLAIM_SIZES, CLAIMS_FROM, claimTitle } from './scenarios/fleet-claims.ts'
import { IDLE_WORKERS } from './scenarios/fleet-idle.ts'

export interface Ratio {
  readonly name: string
  readonly value: number
  /** Null: printed, not promised. */
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
  costOf('drain, not kept ÷ graphile-worker', 'drain', 'leasehold-not-kept', 'graphile-worker', 0.52),
  costOf('drain, kept ÷ graphile-worker', 'drain', 'leasehold', 'graphile-worker', 0.63),
  ...trickle('trickle-50', 0.9),
  ...trickle('trickle-10', 1.1),
  costOf('8 workers, not kept ÷ graphile-worker', 'workers', 'leasehold-not-kept × 8', 'graphile-worker × 8', 0.8),
  costOf('8 workers, kept ÷ graphile-worker', 'workers', 'leasehold × 8', 'graphile-worker × 8'),
  costOf('8 workers ÷ 1, not kept', 'workers', 'leasehold-not-kept × 8', 'leasehold-not-kept × 1'),
  costOf('8 workers ÷ 1, graphile-worker', 'workers', 'graphile-worker × 8', 'graphile-worker × 1'),
  speed('drain, kept ÷ its floor', 'drain', 'leasehold', 'floor', 0.7),
  speed('drain, not kept ÷ its floor', 'drain', 'leasehold-not-kept', 'floor-not-kept', 0.7),
  speed('drain, kept ÷ not kept', 'drain', 'leasehold', 'leasehold-not-kept', 0.7),
  speed('drain, not kept ÷ graphile-worker', 'drain', 'leasehold-not-kept', 'graphile-worker'),
  speed('drain, kept ÷ graphile-worker', 'drain', 'leasehold', 'graphile-worker'),
  speed('never analyzed, not kept ÷ graphile-worker', 'never-analyzed', 'leasehold-not-kept', 'graphile-worker', 4),
  speedOfBest('bulk enqueue ÷ best peer', 'enqueue', 1.8),
  speedOfBest('steady, kept ÷ best peer', 'steady', 1.9),
  speed('steady, not kept ÷ graphile-worker', 'steady', 'leasehold-not-kept', 'graphile-worker', 1.9),
  costOf('steady, kept ÷ graphile-worker', 'steady', 'leasehold', 'graphile-worker'),
  speedOfBest('one job at a time ÷ best peer', 'batch-1', 1.2),
  costOf('one job at a time ÷ graphile-worker', 'batch-1', 'leasehold', 'graphile-worker'),
  speedOfBest('one handler at a time, claiming ahead ÷ best peer', 'one-handler', 1.2),
  costOf('one handler at a time, claiming ahead ÷ graphile-worker', 'one-handler', 'leasehold', 'graphile-worker'),
  speedOfBest('enqueue in a transaction, median ÷ best peer', 'single', 1, 'perSecondAtP50'),
  latencyOfBest('idle latency, median ÷ best peer', 'idle', 'p50Ms', 1),
  latencyOfBest('idle latency, p99 ÷ best peer', 'idle', 'p99Ms', 1),
  burden('a million jobs wait', 'backlog', 1.2),
  burden('a million scheduled and a million finished beside', 'scheduled', 1.2),
  burden('20,000 in flight elsewhere', 'in-flight', 1.2),
  burden('a snapshot is held', 'held-snapshot', 1.2),
  burden('a snapshot is held for long', 'held-snapshot-long', 1.2),
  {
    name: 'seconds behind when a snapshot is held for long',
    value: (find) => find('held-snapshot-long', 'leasehold', 'backlogSeconds'),
    most: 2,
  },
  {
    name: 'memory after all ÷ after a fifth',
    value: (find) =>
      quotient(find('memory at 100 %', 'leasehold', 'rssMiB'), find('memory at 20 %', 'leasehold', 'rssMiB')),
    most: 1.2,
  },
  speed('1,000 keys in order ÷ the same jobs unordered', 'order-keys', 'leasehold-ordered', 'leasehold', 0.5),
  speed('1,000 keys ÷ graphile-worker', 'order-keys', 'leasehold-ordered', 'graphile-worker-ordered'),
  speed('1,000 keys ÷ pg-boss', 'order-keys', 'leasehold-ordered', 'pg-boss-ordered'),
  speed('one key ÷ graphile-worker', 'order-one-key', 'leasehold-ordered', 'graphile-worker-ordered', 5),
  speed('one key ÷ pg-boss', 'order-one-key', 'leasehold-ordered', 'pg-boss-ordered', 10),
  ...(['order-enqueue', 'order-enqueue-own-key', 'order-single'] as const).map((scenario) =>
    costOf(`${scenario}, ordered ÷ plain`, scenario, 'leasehold-ordered', 'leasehold', 1.5),
  ),
  ...(['leasehold-ordered', 'pg-boss-ordered'] as const).flatMap(claimsInOrder),
  latencyInFront('p50Ms', 'none', 1.3),
  latencyInFront('p50Ms', 'few', 1.3),
  latencyInFront('p99Ms', 'none'),
  latencyInFront('p99Ms', 'few'),
  besideOrdered('claim of one job'),
  besideOrdered('drain'),
  {
    name: 'fair queue: cost of a claim, many of 1 key in front ÷ few',
    value: (find) => quotient(ofFair(find, 'claimMicros'), find('fair-claim', 'leasehold-fair, few', 'claimMicros')),
    most: 1.5,
  },
  { name: 'fair queue: claims until another key starts', value: (find) => ofFair(find, 'claims'), most: 2 },
  ...(['fleet', 'fleet-5-ms'] as const).flatMap((scenario) => [
    onRing(scenario, 'leasehold-ring', 'leasehold-keyed', 8, 1.1),
    onRing(scenario, 'leasehold-ordered-ring', 'leasehold-ordered', 8, 1.1),
    onRing(scenario, 'leasehold-ring', 'leasehold-keyed', 1),
  ]),
  ...CLAIMS_FROM.flatMap((from) => CLAIM_SIZES.map((limit) => behindOthers(claimTitle(limit, from)))),
  {
    name: `statements a second of each of ${IDLE_WORKERS} idle workers on the ring`,
    value: (find) => find('fleet-idle', `leasehold-ring × ${IDLE_WORKERS}`, 'statementsPerSecond'),
    most: 2,
  },
  costOf('bulk enqueue, ring ÷ no ring', 'fleet-enqueue', 'leasehold-ring', 'leasehold-keyed'),
  costOf('single enqueue, ring ÷ no ring', 'fleet-single', 'leasehold-ring', 'leasehold-keyed'),
  ...PEERS.flatMap((peer) => [
    told(peer, 'a million jobs wait', 'backlog'),
    told(peer, 'a snapshot is held', 'held-snapshot'),
    told(peer, 'a snapshot is held for long', 'held-snapshot-long'),
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

/** Processor time per job, Node and database. */
function costOf(name: string, scenario: string, subject: Subject, other: Subject, most?: number): Bar {
  const value = (find: Find) => quotient(cost(find, scenario, subject), cost(find, scenario, other))
  return { name: `cost per job: ${name}`, value, ...(most === undefined ? {} : { most }) }
}

/** The default against graphile-worker with its local queue, which keeps nothing; not kept is printed beside it. */
function trickle(scenario: string, most: number): Bar[] {
  const against = (subject: Subject, measure: Measure) => (find: Find) =>
    quotient(find(scenario, subject, measure), find(scenario, 'graphile-worker', measure))
  const title = `${scenario}, worker's side ÷ graphile-worker's`
  return [
    { name: `${title}, kept`, value: against('leasehold', 'workerMicrosPerJob'), most },
    { name: `${title}, not kept`, value: against('leasehold-not-kept', 'workerMicrosPerJob') },
    { name: `${scenario}, start p99 ÷ graphile-worker's`, value: against('leasehold', 'p99Ms'), most: 1.5 },
  ]
}

function speed(name: string, scenario: string, contender: ContenderName, other: ContenderName, least?: number): Bar {
  const of = (find: Find, which: ContenderName) => find(scenario, which, 'jobsPerSecond')
  const value = (find: Find) => quotient(of(find, contender), of(find, other))
  return { name: `jobs/s: ${name}`, value, ...(least === undefined ? {} : { least }) }
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

/** What a claim costs, compared with one where few jobs of few keys wait. A bar for ours only. */
function claimsInOrder(contender: ContenderName): Bar[] {
  const limit = contender === 'leasehold-ordered' ? { most: 1.3 } : {}
  const micros = (find: Find, line: string) => find('order-claim', `${contender}, ${line}`, 'claimMicros')
  return CLAIM_LINES.map((line) => ({
    name: `${contender}: cost of a claim, ${line} wait ÷ ${FEW_WAIT}`,
    value: (find) => quotient(micros(find, line), micros(find, FEW_WAIT)),
    ...limit,
  }))
}

/** A worker that is idle otherwise, or one that is busy with a key that has few jobs. */
function latencyInFront(measure: 'p50Ms' | 'p99Ms', than: 'none' | 'few', most?: number): Bar {
  const of = (find: Find, front: string) => find('order-front', `leasehold-ordered, ${front}`, measure)
  return {
    name: `other keys, ${measure === 'p50Ms' ? 'median' : 'p99'} to start: jobs of one key in front ÷ ${than}`,
    value: (find) => quotient(of(find, 'in front'), of(find, `${than} in front`)),
    ...(most === undefined ? {} : { most }),
  }
}

/** The same jobs with the ring and without. */
function onRing(scenario: string, ring: ContenderName, other: ContenderName, workers: number, most?: number): Bar {
  const many = `${workers} ${workers === 1 ? 'worker' : 'workers'}`
  return costOf(
    `${scenario}, ${many}, ${ring} ÷ ${other}`,
    scenario,
    `${ring} × ${workers}`,
    `${other} × ${workers}`,
    most,
  )
}

function behindOthers(title: string): Bar {
  const of = (find: Find, others: string) => find('fleet-claim', `leasehold-ring, ${title}, ${others}`, 'claimMicros')
  return {
    name: `cost of a claim on the ring, ${title}: jobs of others in front ÷ none`,
    value: (find) => quotient(of(find, 'others in front'), of(find, 'alone')),
    most: 1.3,
  }
}

function ofFair(find: Find, measure: Measure): number | null {
  return find('fair-claim', 'leasehold-fair, many of 1 key in front', measure)
}

function besideOrdered(what: string): Bar {
  const value = (find: Find) => find('order-beside', `leasehold, ${what}`, 'costRatio')
  return { name: `unordered queue, ${what}: with an ordered queue beside ÷ without`, value, most: 1.05 }
}

function known(find: Find, scenario: string, measure: Measure): number[] {
  return PEERS.map((peer) => find(scenario, peer, measure)).filter((value) => value !== null)
}

/** Node and the database together. */
function cost(find: Find, scenario: string, contender: Subject): number | null {
  const node = find(scenario, contender, 'nodeMicrosPerJob')
  const database = find(scenario, contender, 'databaseMicrosPerJob')
  return node === null || database === null ? null : node + database
}

function quotient(value: number | null, by: number | null): number | null {
  return value === null || by === null || !Number.isFinite(by) ? null : value / by
}
