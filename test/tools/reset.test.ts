import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { resetSocket } from '../../tools/reset.ts'

async function connected(t: TestContext): Promise<{ one: Socket; other: Socket }> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const one = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  const [other] = (await accepted) as [Socket]
  t.after(() => other.destroy())
  await once(one, 'connect')
  return { one, other: other.resume() }
}

test('the peer sees a connection reset', async (t) => {
  const { one, other } = await connected(t)
  const failed = once(other, 'error')
  resetSocket(one)
  assert.equal((await failed)[0].code, 'ECONNRESET')
})

test('a socket that is half closed is reset, too', async (t) => {
  const { one } = await connected(t)
  const closed = once(one, 'close')
  one.end()
  process.nextTick(() => process.nextTick(() => resetSocket(one))) // Its FIN is queued and not sent.
  await closed
})
