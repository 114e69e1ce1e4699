// Prints the table of transports into docs/transports.md, from what each transport states. The conformance suite
// (test/brokers/conformance.ts) checks these statements against brokers, and a test compares the page with this table.
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'
import { NatsTransport } from '../src/nats/transport.ts'
import { inProcess } from '../src/outbox/in-process.ts'
import type { Transport } from '../src/outbox/transport.ts'
import { SqsTransport } from '../src/sqs/transport.ts'

const PAGE = new URL('../docs/transports.md', import.meta.url)
const [BEGIN, END] = ['<!-- table: npm run transports -->', '<!-- end of the table -->']

/** Never asked here. */
const client = { send() {} } as never
const connection = { request() {}, subscribe() {} } as never
const QUEUE = 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders'

export const TRANSPORTS: readonly { readonly title: string; readonly transport: Transport }[] = [
  { title: 'in process', transport: inProcess(() => {}) },
  { title: 'SQS, standard', transport: new SqsTransport(client, { queueUrl: QUEUE }) },
  { title: 'SQS, FIFO', transport: new SqsTransport(client, { queueUrl: `${QUEUE}.fifo` }) },
  { title: 'NATS JetStream', transport: new NatsTransport(connection, { subject: 'orders' }) },
]

/** What the suite compares, too. */
export function statementsOf({
  name,
  acknowledgement,
  ordering,
  dedupeWindowMs,
  takesRuns = false,
  limits,
}: Transport) {
  return { name, acknowledgement, ordering, dedupeWindowMs, takesRuns, ...limits }
}

export function table(): string {
  const rows = TRANSPORTS.map(({ title, transport }) => {
    const { name, acknowledgement, ordering, dedupeWindowMs, takesRuns, eventBytes, batchEvents } =
      statementsOf(transport)
    const order = ordering === 'key' ? 'events of a key, as acknowledged' : 'none'
    const window = dedupeWindowMs === 0 ? 'delivers both' : `drops it for ${dedupeWindowMs / 60_000} minutes`
    const batch = `${batchEvents}, ${takesRuns ? 'several' : 'one'} of a key`
    const cells = [title, `\`${name}\``, acknowledgement, order, window, sizeOf(eventBytes), batch]
    return `| ${cells.join(' | ')} |`
  })
  const names = [
    'transport',
    '`name`',
    'an acknowledgement means',
    'order',
    'a second copy of an event',
    'largest event',
    'batch',
  ]
  return [`| ${names.join(' | ')} |`, `|${'---|'.repeat(names.length)}`, ...rows].join('\n')
}

function sizeOf(bytes: number): string {
  return bytes % 2 ** 20 === 0 ? `${bytes / 2 ** 20} MiB` : `${bytes / 2 ** 10} KiB`
}

/** The page with the current table. */
export function printed(page: string): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (from < 0 || to < from) throw new Error(`docs/transports.md has no lines ${BEGIN} and ${END}.`)
  return `${page.slice(0, from + BEGIN.length)}\n${table()}\n${page.slice(to)}`
}

export const readPage = () => fs.readFileSync(PAGE, 'utf8')

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) fs.writeFileSync(PAGE, printed(readPage()))
