// A proxy in front of an SQS that fails on command or by chance, as SQS and the network do: messages are duplicated and
// reordered, replies are lost after the request, batches fail in part, receipt handles go stale.
//
// The SDK speaks JSON over HTTP: POST / with the action in a header. Each request meets at most one fault, and which one is
// decided by the seed, the action and how many of that action came before: the order in which different actions arrive
// changes nothing.
import { once, setMaxListeners } from 'node:events'
import { Agent, createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs'
import { resetSocket } from './reset.ts'
import { randomFrom, type SeededRandom, shuffled } from './seeded-random.ts'

/**
 * delay          the request is carried out later
 * late reply     the reply comes later
 * reset          the connection is reset, nothing is carried out
 * drop reply     all is carried out, and the connection reset
 * cut reply      the same, in the middle of the reply
 * server error   500, nothing is carried out
 * throttle       the same, with the error of SQS for too many requests
 * fail part      of a batch: some entries are not carried out, and are reported as failed
 * duplicate      a receive also returns a copy of an earlier message, its receipt handle included; not in a FIFO
 *                queue, which repeats a message only when its visibility has ended
 * reorder        of a receive: its messages in another order, but for those of one group
 */
export const FAULTS = [
  'delay',
  'late reply',
  'reset',
  'drop reply',
  'cut reply',
  'server error',
  'throttle',
  'fail part',
  'duplicate',
  'reorder',
] as const
export type Fault = (typeof FAULTS)[number]

export interface FaultRule {
  readonly fault: Fault
  /** `SendMessageBatch` and so on. Default: every action about messages that can meet it. */
  readonly action?: string
  /** From 0 to 1, for each request. Default: 1. */
  readonly chance?: number
  /** How often. Default: 1, or without end when there is a chance. */
  readonly times?: number
  /** fail part: which entries, by their JSON. Default: each with a chance of one half, and one at least. */
  readonly entries?: (entry: string) => boolean
  /** fail part: as what. Default: InternalError, and not the sender's fault. */
  readonly code?: string
  readonly senderFault?: boolean
  /** delay, late reply: until this, or up to so many milliseconds. Default: up to 50 ms. */
  readonly until?: Promise<unknown>
  readonly upToMs?: number
}

export interface FaultySqsOptions {
  /** Default: 1. */
  readonly seed?: number
  readonly faults?: readonly FaultRule[]
  /** A receipt handle is refused once the message was received again. SQS may do that; the emulator ignores it. */
  readonly refusesStaleHandles?: boolean
}

export interface FaultySqs {
  readonly endpoint: string
  /** The client configuration for the SDK. Set `maxAttempts: 1` to see every fault. */
  readonly config: SQSClientConfig
  readonly client: SQSClient
  /** How often each fault has happened, and stale handles were refused (entries, not requests). */
  readonly happened: Readonly<Record<Fault | 'stale handle', number>>
  /** How many requests came, by action. */
  readonly requests: ReadonlyMap<string, number>
  /** From now on. Resolves when it has happened as often as wanted. */
  fault(rule: FaultRule): Promise<void>
  /** No more faults, but for stale handles. */
  calm(): void
  stop(): Promise<void>
}

interface ActiveRule extends FaultRule {
  left: number
  readonly over: () => void
}

interface Entry {
  readonly Id: string
  readonly ReceiptHandle?: string
}

interface Message {
  readonly MessageId: string
  readonly ReceiptHandle: string
  readonly Attributes?: { readonly MessageGroupId?: string }
}

interface Question {
  readonly action: string
  readonly body: Record<string, unknown> & { QueueUrl?: string; Entries?: Entry[]; ReceiptHandle?: string }
  readonly headers: IncomingMessage['headers']
  readonly random: SeededRandom
}

interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: Record<string, unknown>
}

const ABOUT_MESSAGES = /^(SendMessage|ReceiveMessage|DeleteMessage|ChangeMessageVisibility)(Batch)?$/
/** Messages of each queue, kept for copies. */
const REMEMBERED = 1_000

export async function startFaultySqs(
  target: { readonly endpoint: string; readonly config: SQSClientConfig },
  options: FaultySqsOptions = {},
): Promise<FaultySqs> {
  const { seed = 1, refusesStaleHandles = false } = options
  const rules: ActiveRule[] = []
  const happened = Object.fromEntries([...FAULTS, 'stale handle'].map((name) => [name, 0])) as Record<
    keyof FaultySqs['happened'],
    number
  >
  const requests = new Map<string, number>()
  const received = new Map<string, Message[]>()
  const newestHandle = new Map<string, string>()
  const messageOf = new Map<string, string>()
  const agent = new Agent({ keepAlive: true })
  const stopping = new AbortController()
  setMaxListeners(0, stopping.signal) // One for each request.

  // An idle connection stays open: on a machine that is busy elsewhere the next request could come as it is closed.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    serve(request, response).catch(() => resetSocket(request.socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const config = { ...target.config, endpoint }
  const client = new SQSClient(config)

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const action = String(request.headers['x-amz-target'] ?? '').replace('AmazonSQS.', '')
    const count = (requests.get(action) ?? 0) + 1
    requests.set(action, count)
    const body = JSON.parse(Buffer.concat(chunks).toString() || '{}')
    const question = { action, body, headers: request.headers, random: randomFrom(`${seed} ${action} ${count}`) }
    const rule = choose(question)
    const reset = () => resetSocket(request.socket)

    if (rule?.fault === 'delay') await wait(rule, question.random)
    if (rule?.fault === 'reset') return reset()
    const answer = await answerTo(question, rule)
    if (rule?.fault === 'late reply') await wait(rule, question.random)
    if (rule?.fault === 'drop reply') return reset()
    const bytes = Buffer.from(JSON.stringify(answer.body))
    response.writeHead(answer.status, { ...answer.headers, 'content-length': bytes.length })
    if (rule?.fault === 'cut reply') response.write(bytes.subarray(0, bytes.length >> 1), reset)
    else response.end(bytes)
  }

  /** At most one, and it is counted: a chosen fault does happen. */
  function choose(question: Question): ActiveRule | undefined {
    const rule = rules.find(
      (each) => each.left > 0 && applies(each, question) && question.random() < (each.chance ?? 1),
    )
    if (rule === undefined) return undefined
    happened[rule.fault]++
    if (--rule.left === 0) rule.over()
    return rule
  }

  function applies({ fault, action, entries }: FaultRule, question: Question): boolean {
    if (action === undefined ? !ABOUT_MESSAGES.test(question.action) : action !== question.action) return false
    const { Entries, QueueUrl } = question.body
    if (fault === 'fail part') return Entries?.some((entry) => entries?.(JSON.stringify(entry)) ?? true) ?? false
    if (fault === 'reorder') return question.action === 'ReceiveMessage'
    if (fault === 'duplicate')
      return question.action === 'ReceiveMessage' && received.has(QueueUrl!) && !QueueUrl!.endsWith('.fifo')
    return true
  }

  function wait({ until, upToMs = 50 }: FaultRule, random: SeededRandom): Promise<unknown> {
    return until ?? setTimeout(random() * upToMs, undefined, { signal: stopping.signal })
  }

  async function answerTo(question: Question, rule: ActiveRule | undefined): Promise<Answer> {
    if (rule?.fault === 'server error') return problem(500, 'InternalError', 'The proxy was told to fail.')
    if (rule?.fault === 'throttle') return problem(400, 'RequestThrottled', 'The proxy was told to throttle.')
    if (isStale(question.body.ReceiptHandle)) return problem(400, STALE.Code, STALE.Message)
    const failed = new Map<string, object>()
    for (const { Id, ReceiptHandle } of question.body.Entries ?? []) if (isStale(ReceiptHandle)) failed.set(Id, STALE)
    if (rule?.fault === 'fail part') {
      const { code: Code = 'InternalError', senderFault: SenderFault = false } = rule
      for (const { Id } of chosenEntries(question, rule)) failed.set(Id, { Code, SenderFault, Message: 'As scripted.' })
    }
    if (question.action === 'ReceiveMessage') return receive(question, rule)
    if (failed.size === 0) return forward(question)
    const Entries = question.body.Entries!.filter(({ Id }) => !failed.has(Id))
    const answer =
      Entries.length === 0 ? NOTHING_DONE : await forward({ ...question, body: { ...question.body, Entries } })
    const Failed = [...((answer.body.Failed as object[] | undefined) ?? [])]
    for (const [Id, failure] of failed) Failed.push({ Id, ...failure })
    return { ...answer, body: { ...answer.body, Failed } }
  }

  function chosenEntries({ body, random }: Question, { entries }: ActiveRule): Entry[] {
    const all = body.Entries!
    if (entries !== undefined) return all.filter((entry) => entries(JSON.stringify(entry)))
    const some = all.filter(() => random() < 0.5)
    return some.length > 0 ? some : [all[Math.floor(random() * all.length)]!]
  }

  async function receive(question: Question, rule: ActiveRule | undefined): Promise<Answer> {
    const { body, random } = question
    const earlier = received.get(body.QueueUrl!) ?? []
    const copy = rule?.fault === 'duplicate' ? earlier[Math.floor(random() * earlier.length)] : undefined
    const room = Number(body.MaxNumberOfMessages ?? 1) - (copy === undefined ? 0 : 1)
    // The copy is delivered at once, even if the queue is empty.
    const rest = copy === undefined ? body : { ...body, MaxNumberOfMessages: room, WaitTimeSeconds: 0 }
    const answer = room === 0 ? NOTHING_DONE : await forward({ ...question, body: rest })
    if (answer.status !== 200) return answer
    const messages = [...((answer.body.Messages as Message[] | undefined) ?? [])]
    for (const message of messages) {
      newestHandle.set(message.MessageId, message.ReceiptHandle)
      messageOf.set(message.ReceiptHandle, message.MessageId)
    }
    if (messages.length > 0) received.set(body.QueueUrl!, [...earlier, ...messages].slice(-REMEMBERED))
    if (copy !== undefined) messages.splice(Math.floor(random() * (messages.length + 1)), 0, copy)
    const Messages = rule?.fault === 'reorder' ? reordered(messages, random) : messages
    return { ...answer, body: Messages.length > 0 ? { Messages } : {} }
  }

  function isStale(handle: string | undefined): boolean {
    const message = handle === undefined ? undefined : messageOf.get(handle)
    if (!refusesStaleHandles || message === undefined || newestHandle.get(message) === handle) return false
    happened['stale handle']++
    return true
  }

  async function forward({ body, headers }: Question): Promise<Answer> {
    const bytes = Buffer.from(JSON.stringify(body))
    const forwarded = httpRequest(target.endpoint, {
      method: 'POST',
      agent,
      signal: stopping.signal,
      headers: { ...headers, host: new URL(target.endpoint).host, 'content-length': bytes.length },
    })
    forwarded.on('error', () => {}).end(bytes) // Reported by the code that awaits it, if any.
    const [reply] = (await once(forwarded, 'response')) as [IncomingMessage]
    const chunks: Buffer[] = []
    for await (const chunk of reply) chunks.push(chunk)
    const kept = ['content-type', 'x-amzn-query-error'].flatMap((name) => {
      const value = reply.headers[name]
      return typeof value === 'string' ? [[name, value]] : []
    })
    const text = Buffer.concat(chunks).toString()
    return { status: reply.statusCode!, headers: Object.fromEntries(kept), body: JSON.parse(text || '{}') }
  }

  function fault(rule: FaultRule): Promise<void> {
    const left = rule.times ?? (rule.chance === undefined ? 1 : Number.POSITIVE_INFINITY)
    return new Promise((over) => rules.push({ ...rule, left, over }))
  }

  for (const rule of options.faults ?? []) void fault(rule)
  return {
    endpoint,
    config,
    client,
    happened,
    requests,
    fault,
    calm: () => void rules.splice(0),
    stop: async () => {
      stopping.abort()
      client.destroy()
      server.closeAllConnections()
      if (server.listening) await once(server.close(), 'close')
      agent.destroy()
    },
  }
}

const STALE = { Code: 'ReceiptHandleIsInvalid', SenderFault: true, Message: 'The receipt handle has expired.' }
const JSON_1_0 = { 'content-type': 'application/x-amz-json-1.0' }
const NOTHING_DONE: Answer = { status: 200, headers: JSON_1_0, body: {} }

function problem(status: number, code: string, message: string): Answer {
  const fault = status < 500 ? 'Sender' : 'Receiver'
  const headers = { ...JSON_1_0, 'x-amzn-query-error': `${code};${fault}` }
  return { status, headers, body: { __type: `com.amazonaws.sqs#${code}`, message } }
}

/** Of a FIFO queue: messages of a group take the places of their group, in their order. */
function reordered(messages: readonly Message[], random: SeededRandom): Message[] {
  const groupOf = ({ Attributes }: Message) => Attributes?.MessageGroupId
  const inOrder = [...messages]
  return shuffled(messages, random).map((message) => {
    if (groupOf(message) === undefined) return message
    const first = inOrder.findIndex((other) => groupOf(other) === groupOf(message))
    return inOrder.splice(first, 1)[0]!
  })
}
