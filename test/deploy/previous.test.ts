// A deploy: workers of the release before this one and of this one share a schema and a ring. This one migrates while the others run.
// LEASEHOLD_PREVIOUS names a commit that stands for the release before; otherwise it is the last tag.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { freshDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

function lastTag(): string | undefined {
  const { status, stdout } = spawnSync('git', ['describe', '--tags', '--abbrev=0', 'HEAD~1'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  return status === 0 ? stdout.trim() : undefined
}

const previous = process.env.LEASEHOLD_PREVIOUS || lastTag()
const skip = previous === undefined ? 'nothing is released yet: LEASEHOLD_PREVIOUS=<commit> npm run test:deploy' : false

let home: string
before(() => {
  if (previous === undefined) return
  home = mkdtempSync(join(tmpdir(), 'leasehold-deploy-'))
  const archive = execFileSync('git', ['archive', previous, 'src', 'package.json', 'tsconfig.json'], {
    cwd: ROOT,
    maxBuffer: 2 ** 28,
  })
  mkdirSync(join(home, 'old'))
  execFileSync('tar', ['-x', '-C', join(home, 'old')], { input: archive })
  symlinkSync(join(ROOT, 'node_modules'), join(home, 'old', 'node_modules'))
})
after(() => {
  if (home !== undefined) rmSync(home, { recursive: true })
})

/** A release: its command, and a module with handlers that return the name of the release. */
function release(name: string, root: string, url: string) {
  const module = join(home, `${name}.ts`)
  writeFileSync(
    module,
    `import { handle, kind, queue } from ${JSON.stringify(pathToFileURL(join(root, 'src/index.ts')).href)}
export const task = kind('task', { ordered: true })
export const queues = [queue('task', { ordered: true, ring: true })]
const handler = handle(task, (job) => (job.input === 'hang on ${name}' ? new Promise(() => {}) : '${name}'))
export default (leasehold) => leasehold.worker([handler], { label: '${name}', concurrency: 2, lease: '3s', sweep: '1s' })\n`,
  )
  const start = (argv: readonly string[]) =>
    spawn(process.execPath, ['--import', 'tsx', join(root, 'src/cli/main.ts'), ...argv], {
      cwd: ROOT,
      env: { ...process.env, LEASEHOLD_URL: url, NO_COLOR: '1' },
    })
  return {
    run: (...argv: string[]) =>
      new Promise<string>((resolve, reject) => {
        const child = start(argv)
        let all = ''
        for (const stream of [child.stdout, child.stderr])
          stream.setEncoding('utf8').on('data', (text) => (all += text))
        child.once('close', (code) => (code === 0 ? resolve(all) : reject(new Error(`${name}: ${argv[0]}: ${all}`))))
      }),
    module,
    work: () => start(['work', module]),
  }
}

test('workers of the release before and of this one run the jobs of both', { skip }, async (t) => {
  const { pool, url } = await freshDatabase(t)
  await pool.query('drop schema leasehold cascade')
  const before = release('old', join(home, 'old'), url)
  const now = release('new', ROOT, url)
  const workers: ReturnType<typeof before.work>[] = []
  t.after(() => {
    for (const worker of workers) worker.kill('SIGKILL')
  })
  const results = async () => {
    const { rows } = await pool.query(
      `select distinct result #>> '{}' as by from leasehold.jobs where status = 'completed'`,
    )
    return rows.map(({ by }) => by).sort()
  }
  const isIdle = async () =>
    (await pool.query(`select from leasehold.jobs where status in ('pending', 'processing')`)).rowCount === 0
  let key = 0
  const enqueue = (input: string) =>
    pool.query(`select from leasehold.enqueue('task', $1, jsonb_build_object('partition_key', $2::text))`, [
      JSON.stringify(input),
      `key:${key++ % 16}`,
    ])

  // The release before is deployed.
  await before.run('migrate')
  await before.run('configure', before.module)
  const old = before.work()
  workers.push(old)
  await enqueue('first')
  await until('the release before runs a job', isIdle)

  // This one migrates, while workers of the other run, and may start again.
  await now.run('migrate')
  await before.run('migrate', '--check')
  await before.run('enqueue', 'task', '"by the command"', '--key', 'key:0')
  await until('the release before runs a job of the new schema', isIdle)
  assert.deepEqual(await results(), ['old'])

  const seated = async () => {
    const { rows } = await pool.query(`select label from leasehold.seats
      where 'task' = any (queues) and expires_at > leasehold.clock() order by 1`)
    return rows.map(({ label }) => label).join()
  }

  // Both run, until each has had its share of the keys.
  await now.run('configure', now.module)
  const fresh = now.work()
  workers.push(fresh)
  await until('both releases have a seat on one ring', async () => (await seated()) === 'new,old')
  await until('both releases have completed jobs', async () => {
    await enqueue('any')
    return (await results()).length === 2
  })
  await until('all jobs are done', isIdle)

  // A worker of the release before dies with a job, which this one runs again.
  const isHeldBy = async (label: string) =>
    (await pool.query(`select from leasehold.jobs where status = 'processing' and claimed_by_label = $1`, [label]))
      .rowCount! > 0
  await until('the release before holds a job', async () => {
    await enqueue('hang on old')
    return isHeldBy('old')
  })
  old.kill('SIGKILL')
  await until('all jobs are done', isIdle)

  // And the other way, as after a rollback.
  const back = before.work()
  workers.push(back)
  await until('both releases have a seat again', async () => (await seated()) === 'new,old')
  await until('this release holds a job', async () => {
    await enqueue('hang on new')
    return isHeldBy('new')
  })
  fresh.kill('SIGKILL')
  await until('all jobs are done', isIdle)
  const { rows } = await pool.query('select status, count(*)::int from leasehold.jobs group by 1')
  assert.deepEqual(
    rows.map(({ status }) => status),
    ['completed'],
  )
  const stopped = new Promise((resolve) => back.once('close', resolve))
  back.kill('SIGTERM')
  assert.equal(await stopped, 0)
})
