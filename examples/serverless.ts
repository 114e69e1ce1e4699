// No process that stays: something, such as a schedule, calls a function, which does one batch and returns.
import { handle, kind, Leasehold } from 'leasehold'

const thumbnail = kind<{ image: number }>('thumbnail')

const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })

const handlers = [
  handle(thumbnail, async ({ input, signal }) => {
    signal.throwIfAborted() // Pass it on to every slow call.
    return { file: `thumbnail-${input.image}.png` }
  }),
]

/** The platform's entry point. Concurrent invocations get different jobs. */
export async function invoke(): Promise<number> {
  const { completed } = await leasehold.runOnce(handlers, { concurrency: 10 })
  return completed
}

// From here on we are the platform.
await leasehold.migrate()
await leasehold.enqueueMany(
  thumbnail,
  Array.from({ length: 25 }, (_, image) => ({ input: { image } })),
)
for (let invocation = 1, completed = 1; completed > 0; invocation++) {
  completed = await invoke()
  console.log(`invocation ${invocation}: ${completed} completed`)
}
await leasehold.close()
