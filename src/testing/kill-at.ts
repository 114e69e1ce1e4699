/**
 * A process that dies at its nth statement, for tests: all its connections are cut, and it gets no new one. What it had in a
 * transaction is rolled back, and its leases expire. JavaScript that runs goes on until its next statement, as it does in a process that
 * is cut off from its database.
 */
import { Socket } from 'node:net'
import pg from 'pg'
import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'

export interface KillOptions {
  /**
   * before: the statement is not sent. after: it was carried out, and its reply is lost. Default: before.
   */
  readonly when?: 'before' | 'after'
}

/** Dies at the nth statement that is sent through it, counted over all its connections: BEGIN and COMMIT are statements. */
export function killAt(n: number, options: KillOptions = {}): Kill {
  checkOptions('killAt', options, ['when'])
  const { when = 'before' } = options
  if (when !== 'before' && when !== 'after')
    throw new InvalidOptionError('killAt.when', "it must be 'before' or 'after'")
  return new Kill(checkInteger('killAt', n, 1, 1_000_000), when)
}

export class Kill {
  /** Resolves when it has died. */
  readonly died: Promise<void>
  readonly #n: number
  readonly #when: 'before' | 'after'
  readonly #sockets = new Set<Socket>()
  #statements = 0
  #isDead = false
  #resolve: () => void = () => {}

  constructor(n: number, when: 'before' | 'after') {
    this.#n = n
    this.#when = when
    this.died = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  get isDead(): boolean {
    return this.#isDead
  }

  /** How many statements there were. */
  get statements(): number {
    return this.#statements
  }

  /** A pool whose connections are cut: `new Leasehold({ pool: kill.pool({ connectionString }) })`. Without TLS. */
  pool(config: pg.PoolConfig): pg.Pool {
    // The client knows: `ssl`, `sslmode` in the URL, or PGSSLMODE.
    if ((new pg.Client(config) as pg.Client & { readonly ssl: unknown }).ssl)
      throw new InvalidOptionError('pool.ssl', 'killAt() counts statements, which it cannot read over TLS')
    const pool = new pg.Pool({ ...config, password: config.password, stream: () => this.#socket() } as pg.PoolConfig)
    return pool.on('error', () => {}) // They are lost, that is the purpose.
  }

  #socket(): Socket {
    const socket = new CountingSocket({
      isDead: () => this.#isDead,
      begin: () => this.#begin(),
      replied: () => this.#die(),
    })
    this.#sockets.add(socket)
    return socket.once('close', () => this.#sockets.delete(socket))
  }

  #begin(): 'send' | 'send and lose the reply' | 'drop' {
    if (this.#isDead) return 'drop'
    this.#statements++
    if (this.#statements < this.#n) return 'send'
    if (this.#statements === this.#n && this.#when === 'after') return 'send and lose the reply'
    if (this.#statements > this.#n) return 'send' // Beside the last one, whose reply has not come yet.
    this.#die()
    return 'drop'
  }

  #die(): void {
    this.#isDead = true
    for (const socket of this.#sockets) socket.destroy(cut())
    this.#resolve()
  }
}

function cut(): Error {
  return Object.assign(new Error('killAt() has cut this connection'), { code: 'ECONNRESET' })
}

interface Counted {
  isDead(): boolean
  /** A statement begins. */
  begin(): 'send' | 'send and lose the reply' | 'drop'
  /** The reply that is to be lost has come. */
  replied(): void
}

const [QUERY, PARSE, BIND, SYNC, READY] = ['Q', 'P', 'B', 'S', 'Z'].map((letter) => letter.charCodeAt(0))

/** Reads the messages of the Postgres protocol that pass through it. */
class CountingSocket extends Socket {
  readonly #counted: Counted
  /** The first message has no type. */
  #isStarted = false
  #isInStatement = false
  /** Collects the reply that is to be lost. */
  #lost: Buffer | undefined

  constructor(counted: Counted) {
    super()
    this.#counted = counted
  }

  override connect(...args: unknown[]): this {
    if (this.#counted.isDead()) {
      process.nextTick(() => this.destroy(cut()))
      return this
    }
    ;(super.connect as (...args: unknown[]) => this)(...args)
    // Here and not as a method: connect() puts back the method of Socket.
    const write = this.write.bind(this) as (...args: unknown[]) => boolean
    this.write = (chunk: Uint8Array | string, ...rest: unknown[]) => this.#passes(chunk) && write(chunk, ...rest)
    return this
  }

  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    if (this.#lost === undefined || !Buffer.isBuffer(chunk)) return super.push(chunk, encoding)
    this.#lost = Buffer.concat([this.#lost, chunk])
    for (const type of typesIn(this.#lost)) if (type === READY) this.#counted.replied()
    return true
  }

  #passes(chunk: Uint8Array | string): boolean {
    const bytes = Buffer.from(chunk as Uint8Array)
    if (!this.#isStarted) {
      this.#isStarted = true
      return true
    }
    for (const type of typesIn(bytes)) {
      const begins = type === QUERY || ((type === PARSE || type === BIND) && !this.#isInStatement)
      if (type === PARSE || type === BIND) this.#isInStatement = true
      if (type === SYNC) this.#isInStatement = false
      if (!begins) continue
      const fate = this.#counted.begin()
      if (fate === 'drop') return false
      if (fate === 'send and lose the reply') this.#lost = Buffer.alloc(0)
    }
    return true
  }
}

/** Types of the messages that are whole. */
function* typesIn(bytes: Buffer): Generator<number> {
  for (let at = 0; at + 5 <= bytes.length; ) {
    const next = at + 1 + bytes.readInt32BE(at + 1)
    if (next > bytes.length) return
    yield bytes[at]!
    at = next
  }
}
