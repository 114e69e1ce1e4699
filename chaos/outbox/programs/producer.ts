// A producer process: publishes the planned events in transactions that commit, roll back or die. Started again, it continues after
// the last step it began. It ends on SIGTERM.
//
// What committed is what chaos.committed has: one row for each event, in the transaction that published it. `n` is the event's place
// among the commits of its key. It is drawn after the publish, from a row that stays locked until the commit, so it rises in the
// order of commits, whatever the library does.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type pg from 'pg'
import { Outbox } from '../../../src/outbox/index.ts'
import { begin, nameOf, print } from '../../common/program.ts'
import { readWitness } from '../../common/witness.ts'
import { POISON_BYTES } from '../destinations.ts'
import type { Plan, PlannedEvent, Step } from '../plan.ts'
import { leasehold, orders, pool, witness } from './process.ts'

const AT_ONCE = 8
const AGAIN_MS = 250
const LOOK_EVERY_MS = 50
const SOURCE = '/chaos'
const TYPE = 'order.changed'

interface Draft extends PlannedEvent {
  /** Of this attempt: a second attempt of a step publishes other events. */
  readonly w: string
  readonly text: string
}

const plan = JSON.parse(readFileSync(orders.plan, 'utf8')) as Plan
const seat = orders.name.slice(0, orders.name.lastIndexOf('.') + 1)
const before = readWitness(orders.directory, (file) => file.startsWith(seat))
const begun = new Set(before.flatMap(({ e, step }) => (e === 'began' ? [step as string] : [])))
const left = plan.steps.filter(({ name, producer }) => producer === orders.producer && !begun.has(name))
const outbox = new Outbox(leasehold, { source: SOURCE })
let stopping = false
process.on('SIGTERM', () => {
  stopping = true
})

begin(witness)
print('ready')
while (!existsSync(orders.startFile) && !stopping) await wait(LOOK_EVERY_MS)
const startedAt = stopping ? 0 : Number(readFileSync(orders.startFile, 'utf8'))
const running = new Set<Promise<void>>()
for (const step of left) {
  await wait(Math.max(0, startedAt + step.atMs - Date.now()))
  while (running.size >= AT_ONCE) await Promise.race(running)
  if (stopping) break
  const produced: Promise<void> = produce(step).finally(() => running.delete(produced))
  running.add(produced)
}
await Promise.all(running)
if (!stopping) print('done')
while (!stopping) await wait(LOOK_EVERY_MS)
await leasehold.close()
await pool.end()
witness.write('left')

async function produce(step: Step): Promise<void> {
  witness.write('began', { step: step.name })
  for (let attempt = 1; !stopping; attempt++) {
    if (await commits(step, attempt)) return
    await wait(AGAIN_MS)
  }
}

/** False: it failed, or its outcome is not known. */
async function commits(step: Step, attempt: number): Promise<boolean> {
  const client = await pool.connect().catch(() => undefined)
  if (client === undefined) return false
  const drafts = step.events.map((event, index) => drafted(event, `${step.name}.${index} ${orders.name}/${attempt}`))
  const names = drafts.map(({ w }) => w)
  let lost: Error | undefined
  try {
    await client.query('begin')
    const ids = await publish(client, step, drafts)
    await note(client, drafts, ids)
    witness.write('published', { names, ids })
    await wait(step.holdMs)
    if (step.fate === 'die') {
      witness.write('dies', { names })
      process.kill(process.pid, 'SIGKILL')
    }
    await client.query(step.fate === 'rollback' ? 'rollback' : 'commit')
    witness.write(step.fate === 'rollback' ? 'rolled back' : 'committed', { names })
    return true
  } catch (error) {
    lost = error as Error
    witness.write('failed', { names, error: nameOf(error) })
    return false
  } finally {
    client.release(lost)
  }
}

function drafted(event: PlannedEvent, w: string): Draft {
  const text = JSON.stringify({ w, text: event.poison ? 'x'.repeat(POISON_BYTES) : 'äöü€ \u2028' })
  return { ...event, w, text }
}

async function publish(client: pg.PoolClient, { via }: Step, drafts: readonly Draft[]): Promise<string[]> {
  if (via !== 'sql') {
    const events = drafts.map(({ key, text }) => ({ type: TYPE, key, data: Buffer.from(text) }))
    return via === 'publish' ? [await outbox.publish(client, events[0]!)] : outbox.publishMany(client, events)
  }
  const { key, text } = drafts[0]!
  const data = Buffer.from(text).toString('base64')
  const event = { type: TYPE, source: SOURCE, partitionkey: key, data_base64: data }
  const { rows } = await client.query('select leasehold.publish($1::jsonb) as id', [event])
  return [rows[0].id]
}

async function note(client: pg.PoolClient, drafts: readonly Draft[], ids: readonly string[]): Promise<void> {
  const entries = drafts.map((draft, index) => ({ ...draft, id: ids[index]!, index }))
  // By key, so that two producers cannot deadlock here; those of one key in the order in which they were published.
  entries.sort((one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : one.index - other.index))
  for (const { key, id, w, poison, text } of entries) {
    await client.query(
      `with drawn as (
         insert into chaos.key values ($1, 1) on conflict (key) do update set n = chaos.key.n + 1 returning n
       )
       insert into chaos.committed (key, n, id, w, poison, digest) select $1, n, $2, $3, $4, $5 from drawn`,
      [key, id, w, poison, createHash('md5').update(text).digest('hex')],
    )
  }
}
