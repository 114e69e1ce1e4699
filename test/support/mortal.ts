// A process that dies at its k-th statement, played by connections of this process: nothing is sent or received from then on, on any
// of them, and no error shows it. Either the statement was not sent, or it was carried out and its reply never came.
import { Socket } from 'node:net'
import pg from 'pg'
import type { ConnectionOptions } from '../../src/db/connection.ts'
import { gate } from './gate.ts'

export interface Death {
  /** The statement at which it dies, from 1. Larger than their number: it lives. */
  readonly at: number
  readonly when: 'before it is sent' | 'before its reply'
}

export interface Mortal {
  /** For `new Leasehold(…)`. */
  readonly options: ConnectionOptions
  /** The names of statements that were begun and count, or their first words. */
  readonly statements: readonly string[]
  readonly isDead: boolean
  readonly died: Promise<void>
  /** Its connections end with errors, and new ones are refused: what is left of it in this process can end. */
  bury(): void
}

/** `counts`: only these statements count. */
export function mortal(url: string, { at, when }: Death, counts = /^/): Mortal {
  const statements: string[] = []
  const sockets: { close(): void; fail(): void }[] = []
  const death = gate()
  let isDead = false
  let isBuried = false
  const die = () => {
    isDead = true
    // The system closes them; the process is not there to see it.
    for (const socket of sockets) socket.close()
    death.open()
  }

  const stream = () => {
    const socket = new Socket()
    let isWithin = false
    let isLast = false
    const { write, emit, connect } = socket
    const refused = () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    socket.connect = ((...args: Parameters<Socket['connect']>) => {
      if (isBuried) socket.destroy(refused())
      else if (!isDead) connect.apply(socket, args)
      socket.write = counted // Node puts back its own when a socket connects.
      return socket
    }) as Socket['connect']
    // The driver writes one message at a time. P, B and Q begin a statement; S and Q end it.
    const counted = ((message: Buffer, ...rest: []) => {
      const type = String.fromCharCode(message[0]!)
      if (!isDead && !isWithin && 'PBQ'.includes(type)) {
        const name = nameOf(message)
        isLast = counts.test(name) && statements.push(name) === at
        if (isLast && when === 'before it is sent') die()
      }
      isWithin = type !== 'S' && type !== 'Q' && (isWithin || 'PB'.includes(type))
      return isDead ? true : write.call(socket, message, ...rest)
    }) as Socket['write']
    let withheld = Buffer.alloc(0)
    socket.emit = ((event: string, ...args: unknown[]) => {
      if (isDead && !isBuried) return true
      if (event !== 'data' || !isLast) return Reflect.apply(emit, socket, [event, ...args])
      withheld = Buffer.concat([withheld, args[0] as Buffer])
      if (hasReadyForQuery(withheld)) die()
      return true
    }) as Socket['emit']
    const fail = () => {
      Reflect.apply(emit, socket, ['error', new Error('Connection terminated unexpectedly')])
      Reflect.apply(emit, socket, ['close', true])
    }
    sockets.push({ close: () => void socket.destroy(), fail })
    return socket
  }
  const pool = new pg.Pool({ connectionString: url, stream, max: 4 })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return {
    options: { pool, log: () => {} },
    statements,
    get isDead() {
      return isDead
    },
    died: death.opened,
    bury() {
      if (!isDead) die()
      isBuried = true
      for (const socket of sockets) socket.fail()
      void pool.end().catch(() => {})
    },
  }
}

function nameOf(message: Buffer): string {
  const text = message.toString('latin1', 5)
  return (
    /-- (\S+)/.exec(text)?.[1] ??
    text
      .replaceAll(/[^\w. ]+/g, ' ')
      .trim()
      .slice(0, 24)
  )
}

function hasReadyForQuery(messages: Buffer): boolean {
  for (let at = 0; at + 5 <= messages.length; at += 1 + messages.readUInt32BE(at + 1))
    if (messages[at] === 0x5a) return true
  return false
}
