// A script or a test: enqueue some work, do all of it here, look at the results.
import { handle, kind, Leasehold } from 'leasehold'

const wordCount = kind<{ text: string }>('word_count')

const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
await leasehold.migrate()

const { jobId } = await leasehold.enqueue(wordCount, { text: 'to be or not to be' })
await leasehold.enqueueMany(wordCount, [
  { input: { text: 'it is a truth universally acknowledged' } },
  { input: { text: 'call me Ishmael' }, priority: 0 },
])

// Works until nothing is left to claim.
const tally = await leasehold.drain([
  handle(wordCount, ({ input }) => {
    const words = input.text.split(' ').length
    console.log(`${words} words: ${input.text}`)
    return { words }
  }),
])
console.log(`${tally.completed} completed, ${tally.deadLetters} dead letters`)

// Waits for a job wherever it runs. Here it is done already.
const { status, result } = await leasehold.waitFor(jobId, { timeout: '10s' })
console.log(status, result)

await leasehold.close()
