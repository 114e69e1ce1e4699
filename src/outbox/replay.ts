/** Sends stored events to a destination once more, with the same ids. */
import { checkDate, checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane } from '../db/lane.ts'
import type { ByOption } from '../jobs/operator.ts'
import type { Destination } from './destination.ts'
import { NOTE_REPLAY, REPLAY } from './outbox.sql.ts'

const AT_ONCE = 1_000

export interface ReplayFilter {
  readonly destination: Destination | string
  /** Published at this moment or later. */
  readonly from: Date
  /** Published before. Default: now. */
  readonly to?: Date
  /** Whole types, or beginnings such as `order.*`, of those that the destination takes. Default: all of them. */
  readonly types?: readonly string[]
  readonly keys?: readonly string[]
}

interface Page {
  readonly since: string
  readonly until: string | null
  /** The place of the last event of the page before. */
  readonly after: string
}

/** A thousand events at a time, each thousand in a transaction of its own. Returns how many were replayed. */
export async function replay(lane: Lane, filter: ReplayFilter, { by }: ByOption): Promise<number> {
  checkOptions('replay', filter, ['destination', 'from', 'to', 'types', 'keys'])
  const given = typeof filter.destination === 'string' ? filter.destination : filter.destination?.name
  const name = checkText('replay.destination', given, 100)
  const types = checkList('replay.types', filter.types)
  const keys = checkList('replay.keys', filter.keys)
  const who = by === undefined ? null : checkText('by', by, 200)
  const until = filter.to === undefined ? null : checkDate('replay.to', filter.to)
  let page: Page | undefined = { since: checkDate('replay.from', filter.from), until, after: '0' }
  let replayed = 0
  while (page !== undefined) {
    const row: Awaited<ReturnType<typeof replayPage>> = await replayPage(lane, name, page, types, keys)
    replayed += Number(row.replayed)
    // The moment of the first call counts for all of them.
    const next: Page = { since: page.since, until: row.until, after: row.last_place! }
    page = Number(row.looked) < AT_ONCE ? undefined : next
  }
  await lane.run(NOTE_REPLAY, [name, who, `${replayed} events`])
  return replayed
}

async function replayPage(
  lane: Lane,
  name: string,
  { since, until, after }: Page,
  types: readonly string[] | null,
  keys: readonly string[] | null,
) {
  const values = [name, since, until, types, keys, after, AT_ONCE]
  const send = () => lane.run<'replayed' | 'last_place' | 'looked' | 'until'>(REPLAY, values)
  const [row] = await settlingConflicts(lane.standsAlone, send).catch((error) => {
    if (error?.code !== 'LH005') throw error
    const what = `there is no destination ${JSON.stringify(name)}; outbox.configure() it first`
    throw new InvalidOptionError('replay.destination', what)
  })
  return row!
}

function checkList(option: string, list: readonly string[] | undefined): readonly string[] | null {
  if (list === undefined) return null
  if (!Array.isArray(list)) throw new InvalidOptionError(option, 'it must be a list of strings')
  return list.map((each, index) => checkText(`${option}[${index}]`, each, 1_000))
}
