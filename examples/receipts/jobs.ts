// Shared by producers and workers. It touches no database.
import { kind } from 'leasehold'

export const sendReceipt = kind<{ orderId: number; email: string }>('send_receipt', {
  maxAttempts: 5,
  backoff: { first: '1s', max: '1h' },
  timeout: '1m',
})
