import { kind } from '../src/index.ts'

/** The kind that the shop enqueues and its workers handle. */
export const sendReceipt = kind<{ orderId: number; email: string }>('send_receipt', { maxAttempts: 5 })

/** The idempotency key of an order's one job. */
export function keyOf(orderId: number): string {
  return `receipt-${orderId}`
}
