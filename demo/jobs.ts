import { kind } from '../src/index.ts'

/** What the shop enqueues and its workers handle. */
export const sendReceipt = kind<{ orderId: number; email: string }>('send_receipt', { maxAttempts: 5 })

/** The name of an order's one job, whoever asks for it and however often. */
export function keyOf(orderId: number): string {
  return `receipt-${orderId}`
}
