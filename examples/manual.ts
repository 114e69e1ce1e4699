// A loop of your own: claim jobs and record their outcomes by hand. Nothing is renewed unless you do it.
import { kind, Leasehold, LeaseLostError } from 'leasehold'

const exportReport = kind<{ month: string }>('export_report', { backoff: { first: '0s' } })

const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
await leasehold.migrate()
await leasehold.enqueueMany(exportReport, [{ input: { month: 'May' } }, { input: { month: 'June' } }])

let disk = 'full'
for (;;) {
  const [job] = await leasehold.claim(exportReport, { limit: 1, lease: '30s' })
  if (job === undefined) break
  const name = `${job.input.month}, attempt ${job.attempt}`
  try {
    await job.progress({ pages: 12 })
    await job.renew() // It takes longer than thought: 30 s from now.
    if (disk === 'full') throw new Error('disk full')
    await job.complete({ pages: 24 })
    console.log(`${name}: completed`)
  } catch (error) {
    if (error instanceof LeaseLostError) throw error // Another worker has the job: there is nothing to record.
    console.log(`${name}: ${await job.fail(error)}`)
    disk = 'empty'
  }
  // A claim has one outcome. A second one, from here or from a worker long presumed dead, changes nothing.
  await job.complete().catch((error: LeaseLostError) => console.log(`${name}, once more: ${error.code}`))
}

for (const { input, status, attempts } of await leasehold.list({ kind: exportReport })) {
  console.log(input, status, `after ${attempts}`)
}
await leasehold.close()
