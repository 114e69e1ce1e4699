import { checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import type { Queue } from '../core/queue.ts'
import type { Lane } from '../db/lane.ts'
import { type ByOption, checkBy } from './operator.ts'
import { PAUSE, PAUSED, RESUME } from './pause.sql.ts'

/** A queue with all its kinds, or one kind in every queue. */
export type PauseTarget = { readonly queue: string | Queue } | { readonly kind: string | Kind }

export type PauseOutcome = 'paused' | 'already_paused'
export type ResumeOutcome = 'resumed' | 'not_paused'

export async function pause(lane: Lane, target: PauseTarget, options: ByOption = {}): Promise<PauseOutcome> {
  checkOptions('pause', options, ['by'])
  const { what, name } = checkTarget('pause', target)
  const [row] = await lane.run<'outcome'>(PAUSE, [what, name, checkBy(options.by)])
  return row!.outcome as PauseOutcome
}

export async function resume(lane: Lane, target: PauseTarget, options: ByOption = {}): Promise<ResumeOutcome> {
  checkOptions('resume', options, ['by'])
  const { what, name, queue } = checkTarget('resume', target)
  const [row] = await lane.run<'outcome'>(RESUME, [what, name, checkBy(options.by), queue])
  return row!.outcome as ResumeOutcome
}

function checkTarget(of: string, target: PauseTarget): { what: 'queue' | 'kind'; name: string; queue: string } {
  if (typeof target === 'string') {
    const name = JSON.stringify(target)
    throw new InvalidOptionError(of, `it must name a queue or a kind: write { queue: ${name} } or { kind: ${name} }`)
  }
  checkOptions(of, target ?? null, ['queue', 'kind'])
  const { queue, kind } = target as { queue?: string | Queue; kind?: string | Kind }
  if ((queue === undefined) === (kind === undefined)) {
    throw new InvalidOptionError(of, 'it must name a queue or a kind: { queue: … } or { kind: … }')
  }
  const what = queue === undefined ? 'kind' : 'queue'
  const given = queue ?? kind
  const name = checkText(`${of}.${what}`, typeof given === 'object' && given !== null ? given.name : given!, 200)
  return { what, name, queue: typeof kind === 'object' && kind !== null ? kind.queue : name }
}

/** Queues and kinds of which no job may start. */
export interface Paused {
  readonly queues: ReadonlySet<string>
  readonly kinds: ReadonlySet<string>
}

/** What is paused now. */
export async function pausedNow(lane: Lane): Promise<Paused> {
  const rows = await lane.run<'what' | 'name'>(PAUSED, [])
  const names = (of: string) => new Set(rows.filter(({ what }) => what === of).map(({ name }) => name!))
  return { queues: names('queue'), kinds: names('kind') }
}

/** What a notification of topic `pause` names: `queue:mail` or `kind:send_receipt`. */
export function pausedBy(message: string): Paused {
  const name = message.slice(message.indexOf(':') + 1)
  const isOf = (what: string) => new Set(message.startsWith(`${what}:`) ? [name] : [])
  return { queues: isOf('queue'), kinds: isOf('kind') }
}
