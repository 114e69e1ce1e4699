// A cancel request that the server is slow to read.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, Socket } from 'node:net'
import { test } from 'node:test'
import type pg from 'pg'
import { cancelAndDestroy } from '../../src/db/cancel.ts'

test('the server closes the socket of a cancel request; we do not while it may be in flight', async (t) => {
  const pooler = createServer()
  pooler.listen(0, '127.0.0.1')
  t.after(() => pooler.close())
  await once(pooler, 'listening')
  const { port } = pooler.address() as AddressInfo
  let closed = false
  const stream = { destroy: () => (closed = true) }
  const client = { processID: 7, secretKey: 8, host: '127.0.0.1', port, ssl: false, connection: { stream } }
  const requests: Socket[] = []
  const connect = () => {
    const socket = new Socket()
    requests.push(socket)
    return socket
  }

  const accepted = once(pooler, 'connection')
  const neverEnds = new Promise(() => {})
  await cancelAndDestroy(client as unknown as pg.ClientBase, neverEnds, connect, 1)
  assert.equal(closed, true, 'the connection of the statement is')
  assert.equal(requests[0]!.destroyed, false)

  const [taken] = (await accepted) as [Socket]
  const [request] = await once(taken, 'data')
  assert.deepEqual([...request].slice(-8), [0, 0, 0, 7, 0, 0, 0, 8])
  taken.end()
  await once(requests[0]!, 'close')
})
