/** The receiver's inbox: `leasehold/inbox`. For handlers of messages see `leasehold/sqs` and `leasehold/nats`. */
export { EventConflictError, LockTimeoutError } from '../core/errors.ts'
export { Inbox, type InboxOptions, type Received, type ReceiveOptions } from './inbox.ts'
export type { Receipt, SentEvent } from './receipts.ts'
