// One call for many jobs: one request to a service that takes lists. Each job keeps its own outcome.
import { Fatal, handleBatch, kind, Leasehold } from 'leasehold'

const index = kind<{ page: string; words: number }>('index_page', { backoff: { first: '100ms' } })

const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
await leasehold.migrate()
await leasehold.enqueueMany(
  index,
  [...'abcdefgh'].map((page, words) => ({ input: { page, words } })),
)

/** A search engine that takes many pages in one request, and answers for each. */
async function addPages(pages: readonly { page: string; words: number }[]): Promise<('added' | 'empty')[]> {
  return pages.map(({ words }) => (words === 0 ? 'empty' : 'added'))
}

const tally = await leasehold.drain([
  handleBatch(
    index,
    async (jobs) => {
      const answers = await addPages(jobs.map(({ input }) => input))
      console.log(`one request for ${jobs.length} pages`)
      for (const [place, job] of jobs.entries()) {
        if (answers[place] === 'empty') job.fail(new Fatal('an empty page'))
      }
      // The others have succeeded when this returns.
    },
    { size: 5 },
  ),
])
console.log(`${tally.completed} completed, ${tally.deadLetters} dead letter`)
await leasehold.close()
