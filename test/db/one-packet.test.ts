// A server that opens a session and ends it in one packet: the client receives both in one read.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { PooledStatements } from '../../src/db/pooled.ts'
import { withTransaction } from '../../src/db/transaction.ts'

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const READY = Buffer.concat([
  message('R', Buffer.alloc(4)), // Authentication is not needed.
  message('K', Buffer.alloc(8)),
  message('Z', Buffer.from('I')),
])
const SHUTS_DOWN = message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0'))

async function poolOnSuchAServer(t: TestContext): Promise<pg.Pool> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(Buffer.concat([READY, SHUTS_DOWN])))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const pool = new pg.Pool({ host: '127.0.0.1', port, user: 'any', password: 'any', database: 'any', max: 1 })
  pool.on('error', () => {})
  t.after(async () => {
    await pool.end()
    server.close()
  })
  return pool
}

test('a transaction on a session that ends as it opens rejects, and the process goes on', async (t) => {
  const pool = await poolOnSuchAServer(t)
  await assert.rejects(withTransaction(pool, async () => 'never'))
  assert.equal(pool.totalCount, 0)
})

test('a producer’s statement on such a session rejects, and the process goes on', async (t) => {
  const pool = await poolOnSuchAServer(t)
  await assert.rejects(new PooledStatements(pool, 60_000).query({ text: 'select 1', rowMode: 'array' }))
  assert.equal(pool.totalCount, 0)
})
