/**
 * The plan of a run, made of its seed alone: which messages are sent when, which can never be handled, which processes are
 * killed, and which faults happen. The machine decides the interleaving, so a seed repeats the plan, and usually its
 * findings.
 */
import { randomFrom, type SeededRandom } from '../../tools/seeded-random.ts'
import { dealt } from '../common/deck.ts'

/** The ways of handling a message, each with a queue of its own. */
export const WAYS = ['two phases', 'one update', 'once per message', 'into a queue', 'in order'] as const
export type Way = (typeof WAYS)[number]

const GROUPS = 3
/** So many messages of a group are sent at a time: some wait while one of them fails. */
const BURST = 10
export const SEATS = 3

/** Why a message cannot be handled, by its dead-letter reason. */
const POISON: Record<Way, readonly Poison[]> = {
  'two phases': ['not_json', 'invalid_body'],
  'one update': ['not_json', 'invalid_body'],
  'once per message': ['not_json', 'invalid_body', 'fatal'],
  'into a queue': ['not_json', 'invalid_body', 'unknown_kind'],
  'in order': ['not_json', 'invalid_body', 'fatal'],
}
export type Poison = 'not_json' | 'invalid_body' | 'fatal' | 'unknown_kind'

export interface PlannedMessage {
  readonly way: Way
  /** Of all ways together. In a group they rise. */
  readonly id: number
  readonly atMs: number
  readonly group?: string
  readonly poison?: Poison
  /** For ways with a row: lost is a message that its producer never sends. */
  readonly sent: 'after its row' | 'before its row' | 'lost'
}

/** Statements whose reply is cut off: they are carried out, and their sender does not learn it. */
export const CUT_REPLIES = {
  commit: /Q.{4}commit\0/s,
  'row.claim': '-- row.claim',
  'row.commit': '-- row.commit',
  'row.transition': '-- row.transition',
  'row.fail': '-- row.fail',
  'message.first_time': '-- message.first_time',
  'job.enqueue': '-- job.enqueue',
} as const
export type CutReply = keyof typeof CUT_REPLIES

type StrikeCard =
  | { readonly what: 'SIGKILL' | 'SIGTERM'; readonly seat: number }
  | { readonly what: 'SIGSTOP'; readonly seat: number; readonly forMs: number }
  | { readonly what: 'cut reply'; readonly of: CutReply }
  | { readonly what: 'cut connections' }
  | { readonly what: 'freeze' | 'refuse'; readonly forMs: number }
export type Strike = { readonly atMs: number } & StrikeCard
export type StrikeName = Strike['what']

export interface Plan {
  readonly seed: number
  readonly durationMs: number
  readonly refusesStaleHandles: boolean
  /** By the number of the process. */
  readonly visibilityOf: (process: number) => '1s' | '2s'
  /** 1: the SDK itself does not retry. */
  readonly sdkAttemptsOf: (process: number) => number
  readonly messages: readonly PlannedMessage[]
  readonly strikes: readonly Strike[]
}

const STRIKE_EVERY_MS = 1_200

export function planOf(seed: number, durationMs: number, messagesPerWay: number): Plan {
  const random = randomFrom(`${seed} plan`)
  return {
    seed,
    durationMs,
    refusesStaleHandles: random() < 0.5,
    visibilityOf: (process) => (process % SEATS === 0 ? '1s' : '2s'),
    sdkAttemptsOf: (process) => (process % 2 === 0 ? 1 : 3),
    messages: messagesOf(random, durationMs, messagesPerWay),
    strikes: strikesOf(random, durationMs),
  }
}

function messagesOf(random: SeededRandom, durationMs: number, perWay: number): PlannedMessage[] {
  const messages: PlannedMessage[] = []
  for (let turn = 0; turn < perWay; turn++) {
    for (const way of WAYS) {
      const hasRow = way === 'two phases' || way === 'one update'
      const [isPoison, which, when] = [random() < 0.1, random(), random()]
      const reasons = POISON[way]
      const burst = Math.floor(turn / BURST)
      const start = way === 'in order' ? burst * BURST : turn + random()
      messages.push({
        way,
        id: messages.length + 1,
        atMs: (start / perWay) * durationMs,
        ...(way === 'in order' ? { group: `group-${burst % GROUPS}` } : {}),
        ...(isPoison ? { poison: reasons[Math.floor(which * reasons.length)]! } : {}),
        sent: !hasRow || isPoison || when > 0.1 ? 'after its row' : when > 0.05 ? 'before its row' : 'lost',
      })
    }
  }
  return messages.sort((one, other) => one.atMs - other.atMs || one.id - other.id)
}

function strikesOf(random: SeededRandom, durationMs: number): Strike[] {
  const seat = () => Math.floor(random() * SEATS)
  const deck = [
    ...Object.keys(CUT_REPLIES).map((of) => () => ({ what: 'cut reply' as const, of: of as CutReply })),
    ...twice(() => ({ what: 'SIGKILL' as const, seat: seat() })),
    ...twice(() => ({ what: 'SIGSTOP' as const, seat: seat(), forMs: 1_500 + random() * 4_500 })),
    () => ({ what: 'SIGTERM' as const, seat: seat() }),
    () => ({ what: 'cut connections' as const }),
    () => ({ what: 'freeze' as const, forMs: 300 + random() * 2_000 }),
    () => ({ what: 'refuse' as const, forMs: 300 + random() * 1_500 }),
  ]
  return dealt<StrikeCard>(deck, random, { durationMs, everyMs: STRIKE_EVERY_MS })
}

function twice<T>(card: T): [T, T] {
  return [card, card]
}

/** The body of the message. */
export function bodyOf({ id, poison }: PlannedMessage): string {
  if (poison === 'not_json') return `{ poison ${id}`
  if (poison === 'invalid_body') return JSON.stringify({ id: `poison ${id}`, type: 'task' })
  if (poison === 'fatal') return JSON.stringify({ id, type: 'task', fatal: true })
  return JSON.stringify({ id, type: poison === 'unknown_kind' ? 'nonsense' : 'task' })
}
