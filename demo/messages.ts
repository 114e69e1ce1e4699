/** The messages between a worker process and the demo. */

/** One claim of one order's receipt. */
export interface Claim {
  readonly orderId: number
  readonly generation: number
}

export type FromWorker =
  | { readonly type: 'ready' }
  /** The handler is in the middle of this receipt and goes on when it is printed. */
  | ({ readonly type: 'printing' } & Claim)
  | ({ readonly type: 'sent' } & Claim)
  /** The handler wanted to finish, but its lease was gone: its transaction was rolled back. */
  | ({ readonly type: 'refused' } & Claim)

export type ToWorker = { readonly type: 'printed' } & Claim
