/**
 * A migration without a transaction: it only builds and drops indexes, concurrently. Any number of processes may apply it
 * at the same moment, and any may die at any point; migrate.ts has the argument.
 *
 * A process repeats one step until the migration is recorded: in a transaction under the ledger lock, look, and record the
 * migration if nothing is missing; otherwise find the one statement to send next, and send it after the commit.
 */
import { randomUUID } from 'node:crypto'
import type { ClientBase, Pool } from 'pg'
import { SchemaError } from '../core/errors.ts'
import { sleep } from '../core/timer.ts'
import { isConflict } from './conflict.ts'
import { quoteName, renderNames } from './identifier.ts'
import {
  DISCARD_INDEX,
  DROP_DISCARDED,
  END_TURN,
  IS_BEING_BUILT,
  LOOK_AT_INDEXES,
  RECORD_IF_VALID,
  TAKE_TURN,
} from './index-migration.sql.ts'
import { renderSchema } from './lane.ts'
import { IS_APPLIED, LOCK_LEDGER } from './migrate.sql.ts'
import type { Migration } from './migrations.generated.ts'
import { withTransaction } from './transaction.ts'

const LOOK_AGAIN_MS = 200
/** After deadlocks with the user's DDL. */
const DEADLOCKS_AT_MOST = 10
const DISCARDED = 'discarded_index_'

const CREATE = /^create index concurrently if not exists ([a-z_][a-z0-9_]{0,62}) on (leasehold\.[a-z_][a-z0-9_]*)\s/
const DROP = /^drop index concurrently if exists leasehold\.([a-z_][a-z0-9_]{0,62})$/

type IndexChange =
  | { readonly verb: 'create'; readonly index: string; readonly table: string }
  | { readonly verb: 'drop'; readonly index: string }

interface FoundIndex {
  readonly name: string
  readonly oid: string
  readonly table_oid: string | null
  readonly is_valid: boolean
}

/** recorded: nothing is left to do. wait: another process is working on it. again: look once more. Or the next statement. */
type Step = 'recorded' | 'wait' | 'again' | { readonly send: string }

/** What a statement does. Throws for a statement that a migration without a transaction must not hold. */
export function indexChangeOf(statement: string): IndexChange {
  const bare = statement.replaceAll(/--[^\n]*(\n|$)/g, '').trim()
  const [, created, table] = CREATE.exec(bare) ?? []
  const index = created ?? DROP.exec(bare)?.[1]
  if (index === undefined || index.startsWith(DISCARDED)) {
    throw new SchemaError(
      `A migration without a transaction holds only "create index concurrently if not exists name on leasehold.table …" and "drop index concurrently if exists leasehold.name", not: ${bare.slice(0, 80)}`,
    )
  }
  return table === undefined ? { verb: 'drop', index } : { verb: 'create', index, table }
}

/** The indexes that a migration without a transaction builds. */
export function indexesBuiltBy(migration: Migration): string[] {
  const changes = migration.statements.map(indexChangeOf)
  return changes.filter(({ verb }) => verb === 'create').map(({ index }) => index)
}

/** Resolves when the migration is recorded, by this process or by another. */
export async function applyIndexMigration(db: Pool | ClientBase, migration: Migration, quoted: string): Promise<void> {
  const holder = randomUUID()
  for (let deadlocks = 0; ; ) {
    const step = await withTransaction(db, (tx) => nextStep(tx, migration, quoted, holder), {
      isolation: 'read committed',
    })
    if (step === 'recorded') return
    if (step === 'wait') await sleep(LOOK_AGAIN_MS)
    if (typeof step === 'string') continue
    try {
      await db.query(step.send)
    } catch (error) {
      if (!isConflict(error) || ++deadlocks === DEADLOCKS_AT_MOST) throw error
    }
  }
}

async function nextStep(tx: ClientBase, migration: Migration, quoted: string, holder: string): Promise<Step> {
  const render = (text: string) => renderSchema(text, quoted)
  const { version, name, servesFrom, statements } = migration
  await tx.query(render(LOCK_LEDGER))
  if ((await tx.query(render(IS_APPLIED), [version])).rowCount !== 0) return 'recorded'

  const changes = statements.map((statement) => ({ statement, ...indexChangeOf(statement) }))
  const look = async () =>
    (await tx.query<FoundIndex>(render(LOOK_AT_INDEXES), [changes.map(({ index }) => index)])).rows
  const rows = await look()
  const notAnIndex = rows.find((row) => row.table_oid === null)
  if (notAnIndex !== undefined) throw new SchemaError(`${quoted}.${notAnIndex.name} exists and is not an index.`)
  const isBeingBuilt = async (table: string, index?: string) =>
    (await tx.query(render(IS_BEING_BUILT), [table, index])).rowCount !== 0
  const send = async (table: string, statement: string): Promise<Step> => {
    if (await isBeingBuilt(table)) return 'wait'
    return (await tx.query(render(TAKE_TURN), [version, holder])).rowCount === 1 ? { send: statement } : 'wait'
  }

  const discarded = rows.find((row) => row.name.startsWith(DISCARDED))
  if (discarded !== undefined) {
    return send(
      discarded.table_oid!,
      renderNames(render(DROP_DISCARDED), { discarded: quoteName('index', discarded.name) }),
    )
  }
  for (const change of changes) {
    const found = rows.find((row) => row.name === change.index)
    if (change.verb === 'drop' ? found === undefined : found?.is_valid) continue
    if (change.verb === 'create' && found === undefined) return send(render(change.table), render(change.statement))
    if (await isBeingBuilt(found!.table_oid!, found!.oid)) return 'wait'
    // Checked again after the locks: a build that ended in between has left a valid index.
    const still = (await look()).find(({ oid }) => oid === found!.oid)
    if (still?.is_valid !== found!.is_valid) return 'again'
    const names = { index: quoteName('index', change.index), discarded: quoteName('index', DISCARDED + found!.oid) }
    await tx.query(renderNames(render(DISCARD_INDEX), names))
    return 'again'
  }
  const built = indexesBuiltBy(migration)
  const { rowCount } = await tx.query(render(RECORD_IF_VALID), [version, name, servesFrom, built])
  await tx.query(render(END_TURN), [version])
  return rowCount === 1 ? 'recorded' : 'again'
}
