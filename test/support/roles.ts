// Roles belong to the server and not to a database: each test makes its own and drops them when its database is gone.
import type { TestContext } from 'node:test'
import pg from 'pg'
import { grantsSql, migrate } from '../../src/index.ts'
import type { TestDatabase } from './database.ts'
import { lastFirst, scene, type Undo } from './worker.ts'

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

/**
 * A schema owned by a role without further privileges, and three roles with the rights of grantsSql(). Their names are odd,
 * and PUBLIC may execute no function of the owner.
 */
export async function withRoles(t: TestContext) {
  const undo = lastFirst(t)
  const owner = await newRole(undo, 'owner')
  const roles = {
    worker: await newRole(undo, 'we"ird-worker@example.com'),
    producer: await newRole(undo, 'leasehold.producer'),
    reader: await newRole(undo, 'Reader; drop role x'),
  }
  const setting = await scene(undo as TestContext)
  const { db } = setting
  await db.pool.query(`drop schema leasehold cascade; create schema leasehold authorization ${owner}`)
  const ownerClient = await connectAs(undo, db, owner)
  await ownerClient.query('alter default privileges revoke execute on functions from public')
  await migrate(ownerClient)
  await ownerClient.query(grantsSql(roles))
  await ownerClient.query(grantsSql(roles)) // It can be repeated.
  const as = (role: keyof typeof roles) => setting.leasehold({ connectionString: urlAs(db, roles[role]) })
  const client = (role: keyof typeof roles) => connectAs(undo, db, roles[role])
  return { ...setting, undo, roles, owner: setting.leasehold({ connectionString: urlAs(db, owner) }), as, client }
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
