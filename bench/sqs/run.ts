/**
 * Our SQS consumer beside sqs-consumer: the same rows, the same emulator, the same SDK and the same Node, taking turns. A
 * message is done when it is known to be deleted. Processor time is that of the consumer's own process.
 */
import { execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { CreateQueueCommand, SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs'
import { SqsPublisher } from '../../src/sqs/index.ts'
import { readOptions, runOrExplain } from '../arguments.ts'
import { contendersNode, installPackages } from '../packages.ts'
import { BenchServer } from '../server.ts'
import { median } from '../statistics.ts'
import { CONTENDERS, type ContenderName, type Orders, type Taken } from './names.ts'

const USAGE = `Usage: npm run bench:sqs -- [options]
  --quick  a few messages and rounds, to see that everything runs.
  --json   one line of JSON, the last of the output.`

type Scenario = Pick<Orders, 'concurrency' | 'messages' | 'waitMs'> & { readonly rounds: number }

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'ten at once': { concurrency: 10, messages: 10_000, waitMs: [0, 0], rounds: 5 },
  'forty at once': { concurrency: 40, messages: 10_000, waitMs: [0, 0], rounds: 5 },
  'forty at once, 0 to 100 ms each': { concurrency: 40, messages: 4_000, waitMs: [0, 100], rounds: 5 },
  'a thousand at once, 5 s each': { concurrency: 1_000, messages: 1_000, waitMs: [5_000, 5_000], rounds: 3 },
}
const QUICK: typeof SCENARIOS = {
  'ten at once': { concurrency: 10, messages: 300, waitMs: [0, 0], rounds: 1 },
}
/** Of the consumer's pool, however many messages it holds. */
const CONNECTIONS = 10

const SET_UP = [
  `create table task (id integer primary key, status text not null default 'pending')`,
  'insert into task (id) select generate_series(1, 400000)',
  'vacuum analyze',
]

interface Stage {
  readonly sqs: SQSClientConfig
  readonly client: SQSClient
  readonly database: string
  /** Rows that no queue has named yet. */
  nextRow: number
}

async function run({ quick, json }: { quick: boolean; json: boolean }): Promise<void> {
  await installPackages((text) => console.error(text))
  const emulator = await startEmulator()
  const server = await BenchServer.start(18)
  const client = new SQSClient(emulator.config)
  try {
    const database = await server.clone('sqs', async (main) => {
      for (const statement of SET_UP) if (statement.trim() !== '') await main.query(statement)
    })
    const stage = { sqs: emulator.config, client, database: database.url, nextRow: 1 }
    const bars: Bar[] = []
    for (const [title, scenario] of Object.entries(quick ? QUICK : SCENARIOS)) {
      bars.push(...report(title, await compare(title, scenario, stage)))
    }
    const { rows } = await database.main.query(`select count(*)::int as n from task where status = 'completed'`)
    if (rows[0].n !== stage.nextRow - 1)
      throw new Error(`${stage.nextRow - 1} messages, and ${rows[0].n} rows are done`)
    if (json) console.log(JSON.stringify({ bars }))
    await database.drop()
  } finally {
    client.destroy()
    emulator.stop()
    await server.stop()
  }
}

/** Of one message, but for the first. */
interface Figures {
  readonly perSecond: number
  readonly micros: number
  readonly requests: number
}

/** Round by round, each beginning with another one, so that noise of the machine hits all. */
async function compare(title: string, scenario: Scenario, stage: Stage): Promise<Map<ContenderName, Figures[]>> {
  const figures = new Map<ContenderName, Figures[]>(CONTENDERS.map((name) => [name, []]))
  for (let round = 0; round < scenario.rounds; round++) {
    for (let at = 0; at < CONTENDERS.length; at++) {
      const contender = CONTENDERS[(at + round) % CONTENDERS.length]!
      const own = await take(contender, scenario, stage)
      figures.get(contender)!.push(own)
      console.error(`${title}, round ${round + 1}: ${contender} ${say(own)}`)
    }
  }
  return figures
}

async function take(contender: ContenderName, scenario: Scenario, stage: Stage): Promise<Figures> {
  const { messages, concurrency, waitMs } = scenario
  const { QueueUrl } = await stage.client.send(new CreateQueueCommand({ QueueName: `from-${stage.nextRow}` }))
  const publisher = new SqsPublisher(stage.client, { queueUrl: QueueUrl!, body: (id) => ({ id: Number(id) }) })
  await publisher.publish(Array.from({ length: messages }, () => String(stage.nextRow++)))
  // Where all are held at once there is nothing to warm up with.
  const warmUp = concurrency < messages ? Math.floor(messages / 4) : 0
  const orders: Orders = {
    contender,
    sqs: stage.sqs,
    queueUrl: QueueUrl!,
    database: stage.database,
    concurrency,
    connections: CONNECTIONS,
    messages,
    warmUp,
    waitMs,
  }
  const { stdout, stderr } = await promisify(execFile)(contendersNode(), [
    '--disable-warning=ExperimentalWarning',
    fileURLToPath(new URL('consume.ts', import.meta.url)),
    JSON.stringify(orders),
  ])
  if (stderr !== '') throw new Error(`${contender}: ${stderr}`)
  const { seconds, nodeMicros, requests } = JSON.parse(stdout) as Taken
  const counted = messages - warmUp
  return { perSecond: counted / seconds, micros: nodeMicros / counted, requests: requests / counted }
}

interface Bar {
  readonly name: string
  readonly value: number
  readonly holds: boolean
}

/** Beside whichever of the others is better at it. */
function report(title: string, figures: ReadonlyMap<ContenderName, Figures[]>): Bar[] {
  const all = CONTENDERS.map((name) => {
    const middle = (of: keyof Figures) => median(figures.get(name)!.map((each) => each[of]))
    return { name, perSecond: middle('perSecond'), micros: middle('micros'), requests: middle('requests') }
  })
  console.log(title)
  for (const own of all) console.log(`  ${own.name.padEnd(26)} ${say(own)}`)
  const [own, ...others] = all
  const speed = own!.perSecond / Math.max(...others.map(({ perSecond }) => perSecond))
  const cost = own!.micros / Math.min(...others.map(({ micros }) => micros))
  console.log(`  speed beside the best of the others: ${speed.toFixed(2)}; processor time: ${cost.toFixed(2)}`)
  return [
    { name: `${title}: speed`, value: Number(speed.toFixed(3)), holds: speed >= 1 },
    { name: `${title}: processor time`, value: Number(cost.toFixed(3)), holds: cost <= 1 },
  ]
}

function say({ perSecond, micros, requests }: Figures): string {
  return `${perSecond.toFixed(0)} a second, each ${micros.toFixed(0)} µs of processor and ${requests.toFixed(2)} requests`
}

async function startEmulator(): Promise<{ readonly config: SQSClientConfig; stop(): void }> {
  const script = fileURLToPath(new URL('emulator.ts', import.meta.url))
  const child = fork(script, { execPath: contendersNode(), execArgv: ['--disable-warning=ExperimentalWarning'] })
  const [config] = (await once(child, 'message')) as [SQSClientConfig]
  return { config, stop: () => child.disconnect() }
}

await runOrExplain(() => {
  const flag = { type: 'boolean', default: false } as const
  return run(readOptions({ quick: flag, json: flag }))
}, USAGE)
