// A schema for the input, errors that steer the job, and the events of a worker.
import { Cancel, Fatal, handle, InvalidInputError, kind, Leasehold, RetryAfter, Snooze } from 'leasehold'
import { z } from 'zod'

// Any Standard Schema works. Checked when a job is enqueued, and parsed when it is claimed: the handler gets the schema's
// output, here with a default.
const charge = kind('charge', {
  input: z.object({
    customer: z.string(),
    cents: z.number().int().positive(),
    currency: z.enum(['EUR', 'USD']).default('EUR'),
  }),
  maxAttempts: 3,
  backoff: { first: '100ms', max: '1s' },
})

const leasehold = new Leasehold({
  connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres',
  // By default warnings and errors go to stderr. Inputs and results are never in a message.
  log: ({ level, kind, message }) => level === 'error' && console.log(`  log, ${kind}: ${message}`),
})
await leasehold.migrate()

try {
  await leasehold.enqueue(charge, { customer: 'ada', cents: -5 })
} catch (error) {
  if (!(error instanceof InvalidInputError)) throw error
  console.log(`not enqueued: ${error.issues.map(({ path }) => path).join(', ')}`)
}

let snoozed = false
const charging = handle(charge, async ({ input, attempt }) => {
  switch (input.customer) {
    case 'bob':
      if (attempt === 1) throw new RetryAfter('50ms', 'the bank is busy') // A failed attempt, but not the kind's backoff.
      break
    case 'cleo':
      if (snoozed) break
      snoozed = true
      throw new Snooze('50ms') // Not now. No attempt is spent.
    case 'dan':
      throw new Fatal('the card was stolen') // A dead letter at once.
    case 'eve':
      throw new Cancel('the order was withdrawn')
    case 'fay':
      throw new Error('the bank is on fire') // Again after the kind's backoff, until its attempts are spent.
  }
  return { charged: `${(input.cents / 100).toFixed(2)} ${input.currency}`, attempt }
})

// A worker is notified of new work, but finds retries by polling: once a second by default.
const worker = leasehold
  .worker([charging], { poll: '100ms' })
  .on('retrying', ({ attempt, error }) => console.log(`  attempt ${attempt} failed: ${(error as Error).message}`))
  .on('snoozed', ({ delayMs }) => console.log(`  snoozed for ${delayMs} ms`))
  .on('dead_letter', ({ reason, error }) => console.log(`  dead letter, ${reason}: ${(error as Error).message}`))
const running = worker.run()

for (const customer of ['ada', 'bob', 'cleo', 'dan', 'eve', 'fay']) {
  const { jobId } = await leasehold.enqueue(charge, { customer, cents: 1999 })
  const { status, result } = await leasehold.waitFor(jobId)
  console.log(`${customer}: ${status}`, result ?? '')
}

await worker.stop()
await running
await leasehold.close()
