/** Plants the part of a bug that is in a process. */
import { randomUUID } from 'node:crypto'
import type { OutgoingEvent, Transport } from '../../../src/outbox/index.ts'
import { rewriteStatements } from '../../common/rewrite.ts'
import type { Witness } from '../../common/witness.ts'
import { PLANTS } from './all.ts'

export function plantStatements(name: string, witness: Witness): void {
  const { rewrite = [] } = PLANTS[name]!
  if (rewrite.length > 0) rewriteStatements(rewrite, witness)
}

/** The transport with the bug, or as it is. */
export function plantedTransport(name: string | undefined, transport: Transport, witness: Witness): Transport {
  const bug = name === undefined ? undefined : PLANTS[name]!.relay
  if (bug === undefined) return transport
  const sent = new Set<string>()
  const again = (event: OutgoingEvent) => {
    if (!sent.has(event.id)) {
      sent.add(event.id)
      return event
    }
    witness.write('planted')
    return { ...event, id: randomUUID() }
  }
  const send: Transport['send'] = async (events, signal) => {
    if (bug === 'gives a new id to a resend') return transport.send(events.map(again), signal)
    if (bug === 'takes a refusal for sent') {
      const results = await transport.send(events, signal)
      if (results.some(({ outcome }) => outcome === 'refused_for_good')) witness.write('planted')
      return results.map((result) => (result.outcome === 'refused_for_good' ? { outcome: 'acknowledged' } : result))
    }
    witness.write('planted')
    void transport.send(events, signal).catch(() => {})
    return events.map(() => ({ outcome: 'acknowledged' }))
  }
  return { ...transport, send }
}

/** The handler with the bug, or as it is. */
export function plantedHandle<Message, Answer>(
  name: string | undefined,
  handle: (message: Message) => Promise<Answer>,
  witness: Witness,
): (message: Message) => Promise<Answer> {
  if (name === undefined || PLANTS[name]!.consumer === undefined) return handle
  return async (message) => {
    witness.write('planted')
    void handle(message).catch(() => {})
    return { outcome: 'applied' } as Answer
  }
}
