/** The process of one consumer: handles all messages of the queue, reports its cost, and ends. */
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { start } from './contenders.ts'
import type { Orders, Taken } from './names.ts'

const { contender, messages, warmUp, waitMs, connections, ...orders } = JSON.parse(process.argv[2]!) as Orders
const pool = new pg.Pool({ connectionString: orders.database, max: connections })
const [least, most] = waitMs

const COMPLETE = `update task set status = 'completed' where id = $1 and status = 'pending'`

let requests = 0
let deleted = 0
let began = now()
let onLast: (end: Taken) => void = () => {}
const last = new Promise<Taken>((resolve) => {
  onLast = resolve
})
const stop = await start(contender, {
  ...orders,
  complete: async (id) => {
    if (most > 0) await setTimeout(least + ((id * 7919) % (most - least + 1)))
    await pool.query({ name: 'complete', text: COMPLETE, values: [id] })
  },
  onRequest: () => {
    requests++
  },
  onDeleted: () => {
    deleted++
    if (deleted === warmUp) began = now()
    if (deleted === messages) onLast(now())
  },
})
if (warmUp === 0) began = now() // To load it is not part of the work.
const end = await last
await stop()
await pool.end()
const taken: Taken = {
  seconds: end.seconds - began.seconds,
  nodeMicros: end.nodeMicros - began.nodeMicros,
  requests: end.requests - began.requests,
}
console.log(JSON.stringify(taken))

function now(): Taken {
  const { user, system } = process.cpuUsage()
  return { seconds: performance.now() / 1_000, nodeMicros: user + system, requests }
}
