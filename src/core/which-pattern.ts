/** Which pattern keeps this work from being done twice. The tree is in docs/which-pattern.md; a test compares the two. */
import { InvalidOptionError } from './errors.ts'
import { checkOptions } from './options.ts'

export type Pattern =
  | 'partial unique index'
  | 'row lock'
  | 'lock at the write'
  | 'effects ledger'
  | 'dedupe table'
  | 'single update'
  | 'claim then commit'
  | 'lock across the work'

export interface PatternAnswers {
  /** Rows are looked for, and another one is inserted because of what was found. False if not. */
  readonly checkThenInsert:
    | false
    | {
        /** The rule is the same for every row, so that an index can state it. */
        readonly staticRule: boolean
        /** A row is always there that stands for what is checked, and every writer can lock it. */
        readonly parentRow: boolean
      }
  /** It is a job in a queue of Leasehold's. */
  readonly leaseholdJob: boolean
  /** What it does outside the database may happen twice. */
  readonly effectMayRepeat: boolean
  /** It ends a row's life: pending becomes completed, once and for good. */
  readonly terminalTransition: boolean
  /** While it works, and not only when it writes, two at once would spoil something they share. */
  readonly sharedStateDuringWork: boolean
}

export interface PatternAdvice {
  readonly pattern: Pattern
  /** Needed besides, since the pattern protects the write, and neither the work nor what happens elsewhere. */
  readonly also: readonly Pattern[]
  readonly why: string
  /** Where its SQL is, what it prevents, what not, and what it costs. */
  readonly docs: string
}

const WHY: Record<Pattern, string> = {
  'partial unique index': 'The rule is the same for every row, so an index can keep it, against every writer.',
  'row lock': 'A row stands for what is checked: whoever locks it first is alone with the check and the insert.',
  'lock at the write':
    'No index can state the rule and no row stands for it, so the check is repeated under a short lock.',
  'effects ledger':
    'The effect is that of a job, which the queue fences; it has an entry of its own, so a later attempt does not repeat it.',
  'dedupe table':
    'There is no status that could tell the second time from the first, so the message itself is remembered.',
  'single update': 'Only the first update finds the old status. The effect may happen twice, and that is accepted.',
  'claim then commit':
    'The effect must not happen twice, so the row is claimed before it, by one, and committed after it.',
  'lock across the work': 'Two at work at once would spoil what they share, so only one may be at work.',
}

const NAMES = ['checkThenInsert', 'leaseholdJob', 'effectMayRepeat', 'terminalTransition', 'sharedStateDuringWork']

export function whichPattern(answers: PatternAnswers): PatternAdvice {
  check(answers)
  const pattern = patternFor(answers)
  const also: Pattern[] = []
  // What is outside the transaction is left to a job, enqueued in it.
  if (pattern === 'dedupe table' && !answers.effectMayRepeat) also.push('effects ledger')
  if (answers.sharedStateDuringWork) also.push('lock across the work')
  const why = [pattern, ...also].map((each) => WHY[each]).join(' ')
  return { pattern, also, why, docs: `docs/which-pattern.md#${pattern.replaceAll(' ', '-')}` }
}

function patternFor({ checkThenInsert, leaseholdJob, effectMayRepeat, terminalTransition }: PatternAnswers): Pattern {
  if (checkThenInsert !== false) {
    if (checkThenInsert.staticRule) return 'partial unique index'
    return checkThenInsert.parentRow ? 'row lock' : 'lock at the write'
  }
  if (leaseholdJob && !effectMayRepeat) return 'effects ledger'
  if (!terminalTransition) return 'dedupe table'
  return effectMayRepeat ? 'single update' : 'claim then commit'
}

/** An answer that is missing would be taken for a no. */
function check(answers: PatternAnswers): void {
  checkOptions('whichPattern', answers ?? null, NAMES)
  const { checkThenInsert, ...others } = answers
  if (checkThenInsert !== false) {
    checkOptions('checkThenInsert', checkThenInsert ?? null, ['staticRule', 'parentRow'])
    checkAnswered('staticRule', checkThenInsert.staticRule)
    checkAnswered('parentRow', checkThenInsert.parentRow)
  }
  for (const name of NAMES.slice(1)) checkAnswered(name, others[name as keyof typeof others])
}

function checkAnswered(name: string, answer: unknown): void {
  if (typeof answer !== 'boolean') throw new InvalidOptionError(name, 'it must be answered, true or false')
}
