// The demo is run as `npm run demo` runs it, without a terminal. It has no time limit here but its own.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ALL_ORDERS, CONCURRENCY } from '../demo/scale.ts'
import { Shop } from '../demo/shop.ts'
import { findings } from '../demo/verdict.ts'
import { freshDatabase } from './support/database.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const GONE_WITHIN_MS = 30_000

class Demo {
  readonly ended: Promise<number | string>
  readonly #child
  readonly #temporary = mkdtempSync(join(tmpdir(), 'leasehold-demo-'))
  output = ''

  constructor(t: TestContext, ...flags: string[]) {
    chmodSync(this.#temporary, 0o755) // For the user that the server runs as.
    this.#child = spawn(process.execPath, ['--import', 'tsx', 'demo/run.ts', ...flags], {
      cwd: ROOT,
      env: { ...process.env, TMPDIR: this.#temporary },
      detached: true, // In a process group of its own, which its workers share.
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.output += text
      })
    }
    this.ended = once(this.#child, 'close').then(([code, signal]) => signal ?? code)
    t.after(async () => {
      this.#child.kill('SIGKILL')
      await this.untilGone()
      rmSync(this.#temporary, { recursive: true })
    })
  }

  async said(text: string): Promise<void> {
    const early = this.ended.then(() => assert.fail(`It never said "${text}", but:\n${this.output}`))
    early.catch(() => {}) // It may end later, and should.
    while (!this.output.includes(text)) await Promise.race([once(this.#child.stdout, 'data'), early])
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Resolves when none of its processes is alive and no file of its server is left: nothing announces that. */
  async untilGone(): Promise<void> {
    const files = () => readdirSync(this.#temporary).filter((name) => name.startsWith('leasehold'))
    const deadline = performance.now() + GONE_WITHIN_MS
    while (groupIsAlive(this.#child.pid!) || files().length > 0) {
      assert.ok(performance.now() < deadline, `something of the demo is left ${GONE_WITHIN_MS} ms after its end`)
      await setImmediate()
    }
  }
}

function groupIsAlive(group: number): boolean {
  try {
    return process.kill(-group, 0)
  } catch {
    return false
  }
}

/** The numbers of a line of the verdict, and its mark. */
function verdict(output: string, what: string): unknown[] {
  const line = output.split('\n').find((text) => text.trim().startsWith(what) && /[✓✗]$/.test(text))
  assert.ok(line, `no line "${what}" in:\n${output}`)
  const [found, expected, mark] = line.trim().slice(what.length).trim().split(/\s+/)
  return [Number(found), Number(expected), mark]
}

test('every order gets its receipt, none gets two, and nothing is left behind', async (t) => {
  const demo = new Demo(t)
  assert.equal(await demo.ended, 0, demo.output)
  const { output } = demo
  assert.deepEqual(verdict(output, 'orders paid'), [ALL_ORDERS, ALL_ORDERS, '✓'])
  assert.deepEqual(verdict(output, 'jobs stored with them'), [ALL_ORDERS, ALL_ORDERS, '✓'])
  assert.deepEqual(verdict(output, 'receipts sent'), [ALL_ORDERS - 1, ALL_ORDERS - 1, '✓'])
  assert.deepEqual(verdict(output, 'receipts sent twice'), [0, 0, '✓'])
  assert.deepEqual(verdict(output, 'receipts lost'), [0, 0, '✓'])
  assert.deepEqual(verdict(output, 'receipts taken over from the killed and the paused worker'), [
    2 * CONCURRENCY,
    2 * CONCURRENCY,
    '✓',
  ])
  assert.deepEqual(verdict(output, 'late finishes of the paused worker, refused'), [CONCURRENCY, CONCURRENCY, '✓'])
  assert.deepEqual(verdict(output, 'enqueued again after a lost reply, answered "existing"'), [1, 1, '✓'])
  assert.deepEqual(verdict(output, 'dead letters: an address that cannot be used'), [1, 1, '✓'])
  assert.ok(!output.includes('\x1b'), 'without a terminal there are no escape codes')
  await demo.untilGone()
})

test('without the fence receipts are sent twice, and the demo fails', async (t) => {
  const demo = new Demo(t, '--unfenced')
  assert.equal(await demo.ended, 1, demo.output)
  assert.deepEqual(verdict(demo.output, 'receipts sent twice'), [CONCURRENCY, 0, '✗'])
  assert.deepEqual(verdict(demo.output, 'late finishes of the paused worker, refused'), [0, CONCURRENCY, '✗'])
  await demo.untilGone()
})

test('Ctrl-C leaves nothing behind', async (t) => {
  const demo = new Demo(t)
  await demo.said('kill -9: worker 2')
  demo.kill('SIGINT')
  assert.equal(await demo.ended, 130, demo.output)
  await demo.untilGone()
})

test('kill -9 leaves nothing behind either, not even the worker that stands still', async (t) => {
  const demo = new Demo(t)
  await demo.said('SIGSTOP: worker 3')
  demo.kill('SIGKILL')
  await demo.untilGone()
})

test('the verdict finds a receipt that is missing and one that is there twice', async (t) => {
  const { url } = await freshDatabase(t)
  const shop = await Shop.open(url)
  t.after(() => shop.close())
  await shop.takeOrders(3)
  await shop.pool.query(`insert into receipt values (1, 1, 'worker'), (2, 1, 'worker'), (2, 2, 'worker')`)
  const found = new Map((await findings(shop.pool)).map((finding) => [finding.what, finding.found]))
  assert.equal(found.get('orders paid'), 3)
  assert.equal(found.get('receipts sent'), 3)
  assert.equal(found.get('receipts sent twice'), 1)
  assert.equal(found.get('receipts lost'), 1)
})
