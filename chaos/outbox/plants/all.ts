/** Bugs that can be planted, to check that the checker detects them. */
import { inFunction, trigger } from '../../common/plant-sql.ts'
import type { Plant } from './plant.ts'

const BROKER = ['SIGKILL broker', 'cut broker connections', 'lose acknowledgements']

export const PLANTS: Readonly<Record<string, Plant>> = {
  'mark-before-ack': {
    what: 'a relay completes events before the broker has acknowledged them',
    breaks: /committed is received/,
    faults: ['SIGKILL relay', 'SIGKILL broker'],
    relay: 'marks before the acknowledgement',
  },
  'ack-before-insert': {
    what: 'a consumer acknowledges messages before it has stored them',
    breaks: /committed is received/,
    faults: ['SIGKILL consumer', 'cut database connections'],
    consumer: 'acknowledges before the insert',
  },
  'key-overtaken': {
    what: 'an event does not wait for the one before it of its key',
    breaks: /order of their commits/,
    faults: ['SIGSTOP relay', 'SIGKILL relay'],
    sql: trigger('leasehold.job', 'before insert', 'new.blocked := false; return new;'),
  },
  'retention-past-unsent': {
    what: 'retention drops a day of which events are not sent',
    breaks: /retention drops no event/,
    faults: ['SIGKILL broker', 'freeze broker'],
    sql: inFunction('leasehold.has_unsent', 'return true', 'return false'),
  },
  'new-id-on-resend': {
    what: 'an event that is sent again has another id',
    breaks: /has the id of its event/,
    faults: BROKER,
    relay: 'gives a new id to a resend',
  },
  'forgetful-inbox': {
    what: 'the inbox forgets events at once',
    breaks: /has its effect once/,
    faults: [...BROKER, 'SIGKILL relay', 'SIGKILL consumer'],
    repeated: 'delete from leasehold.inbox',
  },
  'committed-rollback': {
    what: 'what a producer rolls back is published',
    breaks: /rolled back is received/,
    faults: ['SIGKILL producer'],
    // The events without the producer's own note of what committed.
    rewrite: [
      {
        statement: /^rollback$/,
        from: /rollback/,
        to: 'delete from chaos.committed where xmin = pg_current_xact_id()::xid; commit',
      },
    ],
  },
  'refusal-as-sent': {
    what: 'an event that the broker refuses for good is completed',
    breaks: /poison event is a dead letter/,
    faults: ['SIGKILL relay'],
    relay: 'takes a refusal for sent',
  },
  'ignored-block': {
    what: 'a dead letter does not block its key',
    breaks: /onDeadLetter/,
    faults: ['SIGKILL relay'],
    sql: `update leasehold.queue set on_dead_letter = 'skip' where name = 'outbox:stock'`,
  },
  'poison-spreads': {
    what: 'a dead letter of a key also blocks another key',
    breaks: /delays only its own key/,
    faults: ['SIGKILL relay'],
    // Every job of that key that is published or let in once there is a dead letter, so that the plan decides and not the relay's speed.
    sql: trigger(
      'leasehold.job',
      'before insert or update',
      `if new.partition_key = 'order:1' and new.claim_id is null
        and exists (select from leasehold.dead_letter d where d.queue = new.queue) then new.blocked := true; end if; return new;`,
    ),
  },
  'changed-bytes': {
    what: 'some events get one more byte of data',
    breaks: /byte by byte/,
    faults: ['SIGKILL relay'],
    sql: trigger(
      'leasehold.event',
      'before insert',
      `if hashtext(new.id::text) % 3 = 0 then new.data := new.data || '\\x20'::bytea; end if; return new;`,
    ),
  },
}
