// Roles belong to the server and not to a database: each test makes its own and drops them when its database is gone.
import pg from 'pg'
import type { TestDatabase } from './database.ts'
import type { Undo } from './worker.ts'

let made = 0

/** A role that may log in and owns nothing. Make it before the database, so that it is dropped after it. */
export async function newRole(undo: Undo, name: string): Promise<string> {
  const role = `${name}_${process.pid}_${++made}`
  const quoted = `"${role.replaceAll('"', '""')}"`
  await asAdmin(`create role ${quoted} login`)
  undo.after(() => asAdmin(`drop role ${quoted}`))
  return role
}

export function urlAs(db: Pick<TestDatabase, 'url'>, role: string): string {
  const url = new URL(db.url)
  url.username = encodeURIComponent(role)
  return url.href
}

/** A session of this role. */
export async function connectAs(undo: Undo, db: Pick<TestDatabase, 'url'>, role: string): Promise<pg.Client> {
  const client = new pg.Client(urlAs(db, role))
  client.on('error', () => {}) // Its database is dropped under it.
  await client.connect()
  undo.after(() => client.end())
  return client
}

async function asAdmin(statement: string): Promise<void> {
  const admin = new pg.Client(process.env.LEASEHOLD_TEST_URL)
  await admin.connect()
  try {
    await admin.query(statement)
  } finally {
    await admin.end()
  }
}
