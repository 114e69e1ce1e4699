// A broker that dies while messages are sent and consumed: each acknowledged message has its effect once.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Inbox } from '../../src/inbox/index.ts'
import { inOneTransaction } from '../../src/nats/index.ts'
import { askApi } from '../../src/nats/jetstream.ts'
import { NatsQueue } from '../../src/nats/queue.ts'
import type { NatsServer } from '../../tools/nats.ts'
import { needsNatsCluster } from '../support/optional-program.ts'
import { until } from '../support/until.ts'
import { count } from '../support/worker.ts'
import { type NatsScene, natsScene } from './scene.ts'

const needed = await needsNatsCluster()
const MESSAGES = 300

/** Sends all, each until it is acknowledged, kills a server when a third has had its effect, and calls `then`. */
async function survives(
  t: TestContext,
  size: number,
  victimOf: (scene: NatsScene) => Promise<NatsServer>,
  then: (victim: NatsServer) => Promise<void>,
): Promise<void> {
  const scene = await natsScene(t, { size, own: true })
  const { db, lh, send, consumer, left } = scene
  await db.pool.query('create table effect (n integer)')
  const handle = inOneTransaction<{ n: number }>(new Inbox(lh, { source: 's' }), (tx, { body }) =>
    tx.query('insert into effect values ($1)', [body.n]),
  )
  const busy = [1, 2].map(() => consumer<{ n: number }>({ visibility: '2s', handle }))
  const sending = (async () => {
    for (let n = 1; n <= MESSAGES; n++) {
      // The same id each time: the stream drops what it has already stored.
      await until('it is acknowledged', () =>
        send('x', { n }, { 'Nats-Msg-Id': `e-${n}` }).then(
          () => true,
          () => false,
        ),
      )
    }
  })()
  await until('a third is handled', async () => (await count(db, 'from effect')) >= MESSAGES / 3)
  const victim = await victimOf(scene)
  await victim.kill()
  await then(victim)
  await sending
  await until('all are handled', async () => (await count(db, 'from (select distinct n from effect) e')) === MESSAGES)
  await until('all are acknowledged', async () => {
    const { waiting, held } = await left()
    return waiting + held === 0
  })
  assert.equal(await count(db, 'from effect'), MESSAGES)
  for (const one of busy) await one.stop()
}

test('a server that is killed and comes back: nothing is lost, nothing has its effect twice', needed, async (t) => {
  await survives(
    t,
    1,
    async ({ nats }) => nats!.servers[0]!,
    (victim) => victim.start(),
  )
})

test('a cluster of three whose leader is killed goes on with the other two', needed, async (t) => {
  await survives(
    t,
    3,
    async ({ connection, stream, nats }) => {
      type Info = { cluster: { leader: string } }
      const { cluster } = await askApi<Info>(connection, `STREAM.INFO.${stream}`, undefined, 5_000)
      return nats!.servers.find(({ name }) => name === cluster.leader)!
    },
    async () => {},
  )
})

test(
  'a pull that waits ends when its connection is lost, and does not wait for a server that has forgotten it',
  needed,
  async (t) => {
    const { nats, connection, stream, send } = await natsScene(t, { own: true })
    const options = { stream, consumer: 'c', filterSubject: undefined, visibilityMs: 30_000, inOrder: false }
    const queue = new NatsQueue(connection, { ...options, deadLetterSubject: undefined })
    const { signal } = new AbortController()
    const pull = queue.receive(10, 30_000, signal)
    pull.catch(() => {}) // Awaited below.
    const waiting = () => askApi<{ num_waiting: number }>(connection, `CONSUMER.INFO.${stream}.c`, undefined, 5_000)
    await until('the pull waits', async () => (await waiting().catch(() => undefined))?.num_waiting === 1)
    const [server] = nats!.servers
    await server!.kill()
    assert.deepEqual(await pull, [], 'it has ended, and did not time out')
    await server!.start()
    await until('a message is stored', () =>
      send('paid', {}).then(
        () => true,
        () => false,
      ),
    )
    await until('it is received', async () => (await queue.receive(10, 30_000, signal).catch(() => [])).length > 0)
  },
)
