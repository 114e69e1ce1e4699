// The pages as a stranger follows them: in a project made with `npm init`, with the package from its tarball and the other
// packages from npm. Each program is taken from its page.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { freshDatabase } from './support/database.ts'
import { ended, makeProject, type Project, ROOT, run } from './support/project.ts'
import { until } from './support/until.ts'

const ORMS = ['postgres', 'drizzle-orm', 'kysely', 'knex', 'typeorm']
const VITEST = 'vitest@4' // The newest that accepts Node 20.

let project: Project

before(async () => {
  project = await makeProject()
  await project.install('pg', 'zod', '@opentelemetry/api', ...ORMS, VITEST)
})

after(() => project.remove())

function blocksOf(page: string): string[] {
  const whole = readFileSync(join(ROOT, 'docs', page), 'utf8')
  return [...whole.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, block]) => block!)
}

test('docs/command.md: a job goes through the command from migrate to show', async (t) => {
  const { pool, url } = await freshDatabase(t)
  await pool.query('drop schema leasehold cascade')
  const source = `import { handle, kind } from 'leasehold'
export const greet = kind<{ to: string }>('greet', { queue: 'greetings' })
export const handlers = [handle(greet, (job) => \`hello \${job.input.to}\`)]\n`
  project.write('command/jobs.ts', source)
  await project.compile(['command'])
  const bin = join(project.folder, 'node_modules', '.bin', 'leasehold') // npx takes long to find it.
  const leasehold = (...args: string[]) => ended(run(project.folder, bin, args, { DATABASE_URL: url }))
  const help = await ended(run(project.folder, 'npx', ['--no-install', 'leasehold', '--help']))
  assert.match(help, /^leasehold <command> \[options\]\n/)
  assert.match(await leasehold('migrate'), /^Schema leasehold is at level \d+, in database /)
  assert.match(await leasehold('configure', './out/command/jobs.js'), /: greet\.\n$/)
  const { jobId } = JSON.parse(await leasehold('enqueue', 'greet', '{"to": "ada"}', '--json'))
  assert.match(await leasehold('why', jobId), /No live worker handles kind greet in queue greetings/)
  await leasehold('work', './out/command/jobs.js', '--drain')
  assert.match(await leasehold('show', jobId), /^result +"hello ada"$/m)
  assert.match(await leasehold('status'), /^healthy/)
})

test('docs/your-transaction.md: each program commits the order and its job', async (t) => {
  const programs = blocksOf('your-transaction.md').map(
    (code) => [/^\/\/ ([\w-]+)\.ts\n/.exec(code)![1]!, code] as const,
  )
  const names = programs.map(([name]) => name)
  assert.deepEqual(names, ['postgres-js', 'drizzle', 'kysely', 'knex', 'typeorm', 'prisma'])
  const meant = programs.filter(([name]) => name !== 'prisma') // test/adapters/prisma.test.ts generates its client.
  for (const [name, code] of meant) project.write(`orms/${name}.ts`, code)
  await project.compile(['orms'], false)
  for (const [name] of meant) {
    const { pool, url } = await freshDatabase(t)
    await pool.query('create table orders (id int primary key, paid boolean not null default false)')
    await pool.query('insert into orders values (9182)')
    await ended(project.start(`orms/${name}.js`, { DATABASE_URL: url }))
    const { rows } = await pool.query('select paid, kind, payload from orders, leasehold.job')
    assert.deepEqual(rows, [{ paid: true, kind: 'send_receipt', payload: { orderId: 9182 } }], name)
  }
})

test('docs/testing.md: the examples for node:test and vitest pass, and the code of the page runs', async () => {
  const env = { TEST_DATABASE_URL: process.env.LEASEHOLD_TEST_URL }
  project.copyExample('testing')
  project.copyExample('workflow/checkout.ts')
  // Services that take no time.
  const service = 'async (order: number, key: string) => {}'
  const services = ['reserve', 'charge', 'notify', 'refund', 'release'].map((name) => `${name}: ${service}`)
  project.write('workflow/services.ts', `export const services = { ${services.join(', ')} }`)
  const page = blocksOf('testing.md').join('\n').replace('./checkout.js', '../workflow/checkout.js')
  project.write('testing/page.ts', `${page}\nconsole.log('done')\n`)
  await project.compile(['testing', 'workflow'], false)
  assert.match(await ended(project.start('testing/page.js', env)), /^done$/m)
  const onNode = project.start('testing/node.test.js', env, '--test', '--test-reporter=tap')
  assert.match(await ended(onNode), /^# pass 4$/m)
  const args = ['--no-install', 'vitest', 'run', 'testing/vitest.test.ts', '--reporter=json']
  const { numPassedTests, numTotalTests } = JSON.parse(await ended(run(project.folder, 'npx', args, env)))
  assert.deepEqual([numPassedTests, numTotalTests], [4, 4])
})

test('docs/metrics.md: its program answers probes and scrapes, with traces and channels', async (t) => {
  const blocks = blocksOf('metrics.md').join('\n')
  // Ports may be taken. Files are this project's own.
  const page = blocks.replace('listen(8080)', `listen('health.sock')`).replace('listen(9090)', `listen('metrics.sock')`)
  const worker = `import { handle, kind } from 'leasehold'
const greet = kind<string>('greet')
void leasehold.worker([handle(greet, () => {})]).run()
await leasehold.enqueue(greet, 'ada')\n`
  project.write('metrics/page.ts', page + worker)
  await project.compile(['metrics'])
  const { url } = await freshDatabase(t)
  const program = project.start('metrics/page.js', { DATABASE_URL: url })
  t.after(() => program.kill('SIGKILL'))
  const printed: string[] = []
  program.stdout!.setEncoding('utf8').on('data', (chunk) => printed.push(chunk))
  const ask = (socket: string, path: string) => get(join(project.folder, socket), path)
  await until('the worker is ready', async () => (await ask('health.sock', '/readyz'))?.status === 200)
  assert.equal((await ask('health.sock', '/healthz'))?.status, 200)
  const count = 'leasehold_job_outcomes_total{queue="greet",kind="greet",outcome="completed"} 1'
  await until('the job is counted', async () => (await ask('metrics.sock', '/metrics'))?.body.includes(count))
  await until('the channel has printed it', () => printed.join('').includes(`kind: 'greet'`))
})

/** Undefined: the server does not listen yet. */
function get(socketPath: string, path: string): Promise<{ status: number; body: string } | undefined> {
  return new Promise((resolve) => {
    request({ socketPath, path }, async (response) => {
      resolve({ status: response.statusCode!, body: await text(response) })
    })
      .on('error', () => resolve(undefined))
      .end()
  })
}
