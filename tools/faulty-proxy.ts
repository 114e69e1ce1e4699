// A proxy in front of PostgreSQL that fails on command, as networks do.
//
// It sees bytes, not TLS: give it a URL without. It matches bytes, not messages: the text of a statement appears when it is
// parsed, and a prepared statement's name each time it is bound.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { resetSocket } from './reset.ts'

export interface FaultyProxy {
  /** The same URL through the proxy. */
  url(url: string): string
  readonly port: number
  /** How many are open, frozen ones included. */
  readonly connections: number
  /** Resets every open connection. */
  cut(): void
  /** Nothing passes any more, in either direction, without notice: sockets stay open, and new ones are accepted. */
  freeze(): void
  /** Freezes when the next message of a client matches, before it reaches the server. Resolves then. Until thaw(). */
  freezeAt(pattern: RegExp | string): Promise<void>
  /** Held data passes now, also the end of a side that has closed in the meantime. */
  thaw(): void
  /** Delays the server's data by this long, in order. 0 again: at once. */
  delayReplies(ms: number): void
  /** How many replies are being delayed. */
  readonly delayed: number
  /** Resets each new connection at once. Those that are open stay. */
  refuse(): void
  accept(): void
  /**
   * The client of the next `times` messages that match never learns their outcome: the server has replied in full, so it has
   * committed or failed, but the reply is dropped and the connection reset. Resolves when that has happened `times` times.
   * The client must wait for each reply before its next message, as `pg` does by default.
   */
  cutReplies(pattern: RegExp | string, times?: number): Promise<void>
  /** Cuts what is open. */
  stop(): Promise<void>
}

interface Hold {
  matches(text: string): boolean
  happened(): void
}

interface ReplyFault {
  matches(text: string): boolean
  left: number
  happened(): void
}

export async function startFaultyProxy(target: { host: string; port: number }): Promise<FaultyProxy> {
  const links = new Set<Link>()
  const faults: ReplyFault[] = []
  const holds: Hold[] = []
  let frozen = false
  let refusing = false
  const delay: Delay = { ms: 0 }

  // Half-open, so that one side may finish after the other has closed.
  const listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => {
    if (refusing) {
      resetSocket(client.on('error', () => {}))
      return
    }
    const link = new Link(client, connect({ ...target, allowHalfOpen: true }), faults, delay, holds)
    links.add(link)
    link.ended.then(() => links.delete(link))
    if (!frozen) link.thaw()
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as AddressInfo
  const cut = () => {
    for (const link of links) link.cut()
  }

  const freeze = () => {
    frozen = true
    for (const link of links) link.freeze()
  }

  return {
    port,
    url(url) {
      const through = new URL(url)
      through.hostname = '127.0.0.1'
      through.port = String(port)
      return through.href
    },
    get connections() {
      return links.size
    },
    cut,
    freeze,
    freezeAt(pattern) {
      return new Promise((resolve) => {
        const happened = () => {
          freeze()
          resolve()
        }
        holds.push({ matches: matcher(pattern), happened })
      })
    },
    thaw() {
      frozen = false
      holds.length = 0
      for (const link of links) link.thaw()
    },
    get delayed() {
      return [...links].reduce((sum, link) => sum + link.delayed, 0)
    },
    delayReplies(ms) {
      delay.ms = ms
    },
    refuse() {
      refusing = true
    },
    accept() {
      refusing = false
    },
    cutReplies(pattern, times = 1) {
      const matches = matcher(pattern)
      return new Promise((resolve) => {
        let missing = times
        const happened = () => {
          if (--missing === 0) resolve()
        }
        faults.push({ matches, left: times, happened })
      })
    },
    async stop() {
      refusing = true
      cut()
      await Promise.all([...links].map((link) => link.ended))
      if (listener.listening) await once(listener.close(), 'close')
    },
  }
}

function matcher(pattern: RegExp | string): (text: string) => boolean {
  return (text) => (typeof pattern === 'string' ? text.includes(pattern) : text.search(pattern) >= 0)
}

interface Delay {
  ms: number
}

/** One client and its connection to the server. It begins frozen. */
class Link {
  readonly ended: Promise<unknown>
  readonly #client: Socket
  readonly #server: Socket
  readonly #faults: ReplyFault[]
  readonly #holds: Hold[]
  /** A message that is held, and what came after it. */
  #held: Buffer[] = []
  /** The client's bytes since the server last sent: a message may arrive in pieces. */
  #unanswered = ''
  #fault: ReplyFault | undefined
  #withheld = Buffer.alloc(0)
  readonly #delay: Delay
  readonly #delayed: { readonly at: number; readonly pass: () => void }[] = []

  constructor(client: Socket, server: Socket, faults: ReplyFault[], delay: Delay, holds: Hold[]) {
    this.#client = client
    this.#server = server
    this.#faults = faults
    this.#holds = holds
    this.#delay = delay
    this.freeze()
    client.on('data', (bytes) => this.#fromClient(bytes)).on('end', () => server.end())
    server.on('data', (bytes) => this.#fromServer(bytes)).on('end', () => this.#later(() => client.end()))
    this.ended = Promise.all([this.#follow(client, server), this.#follow(server, client)])
  }

  freeze(): void {
    this.#client.pause() // Unread, so that the kernel holds the bytes and hides that a side has closed.
    this.#server.pause()
  }

  thaw(): void {
    for (const bytes of this.#held.splice(0)) this.#pass(bytes)
    this.#client.resume()
    this.#server.resume()
  }

  cut(): void {
    resetSocket(this.#client)
    resetSocket(this.#server)
  }

  #fromClient(bytes: Buffer): void {
    const text = this.#holds.length === 0 ? '' : bytes.toString('latin1')
    const at = this.#holds.findIndex(({ matches }) => matches(text))
    const [hold] = at < 0 ? [] : this.#holds.splice(at, 1)
    // A paused socket may still deliver what it has read.
    if (hold === undefined && this.#held.length === 0) this.#pass(bytes)
    else this.#held.push(bytes)
    hold?.happened()
  }

  #pass(bytes: Buffer): void {
    this.#server.write(bytes)
    const faults = this.#faults.filter(({ left }) => left > 0)
    if (faults.length === 0 || this.#fault) return
    this.#unanswered += bytes.toString('latin1')
    this.#fault = faults.find(({ matches }) => matches(this.#unanswered))
    if (this.#fault) this.#fault.left--
  }

  #fromServer(bytes: Buffer): void {
    this.#unanswered = ''
    const fault = this.#fault
    if (!fault) {
      this.#later(() => this.#client.write(bytes))
      return
    }
    this.#withheld = Buffer.concat([this.#withheld, bytes])
    if (!answersInFull(this.#withheld)) return
    this.#fault = undefined
    this.cut()
    fault.happened()
  }

  get delayed(): number {
    return this.#delayed.length
  }

  /** In their order, also when the delay gets shorter meanwhile. */
  #later(pass: () => void): void {
    if (this.#delay.ms === 0 && this.#delayed.length === 0) {
      pass()
      return
    }
    this.#delayed.push({ at: performance.now() + this.#delay.ms, pass })
    if (this.#delayed.length === 1) this.#passDelayed()
  }

  #passDelayed(): void {
    const now = performance.now()
    while (this.#delayed.length > 0 && this.#delayed[0]!.at <= now) {
      const { pass } = this.#delayed.shift()!
      if (!this.#client.destroyed) pass()
    }
    if (this.#delayed.length > 0) setTimeout(() => this.#passDelayed(), this.#delayed[0]!.at - now).unref()
  }

  /** When one side has closed, so has the other, in the same manner. */
  #follow(socket: Socket, other: Socket): Promise<void> {
    socket.setNoDelay(true).on('error', () => {})
    return new Promise((resolve) => {
      socket.once('close', (failed) => {
        if (failed) resetSocket(other)
        else other.destroySoon()
        if (this.#fault) this.#fault.left++ // There was no reply, so the fault is still to come.
        this.#fault = undefined
        resolve()
      })
    })
  }
}

/**
 * Whether there is a ReadyForQuery among these messages, each one a letter and a length that counts itself. The first bytes
 * of a reply prove nothing: they may be a notification, or rows of a statement that is yet to commit.
 */
function answersInFull(messages: Buffer): boolean {
  for (let at = 0; at + 5 <= messages.length; at += 1 + messages.readUInt32BE(at + 1))
    if (messages.toString('latin1', at, at + 1) === 'Z') return true
  return false
}
