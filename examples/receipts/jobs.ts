// What producers and workers share. It touches no database.
import { kind } from 'leasehold'

export const sendReceipt = kind<{ orderId: number; email: string }>('send_receipt', {
  maxAttempts: 5,
  backoff: { first: '1s', max: '1h' },
  timeout: '1m',
})
