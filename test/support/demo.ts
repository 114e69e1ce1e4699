// A demo, run as npm runs it, without a terminal. It has no time limit but its own.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { until } from './until.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export class Demo {
  readonly ended: Promise<number | string>
  readonly #child
  readonly #temporary = mkdtempSync(join(tmpdir(), 'leasehold-demo-'))
  output = ''

  constructor(t: TestContext, program: string, ...flags: string[]) {
    chmodSync(this.#temporary, 0o755) // For the user that the server runs as.
    this.#child = spawn(process.execPath, ['--import', 'tsx', program, ...flags], {
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

  async printed(text: string): Promise<void> {
    const early = this.ended.then(() => assert.fail(`It never printed "${text}", but:\n${this.output}`))
    early.catch(() => {}) // It may end later, and should.
    while (!this.output.includes(text)) await Promise.race([once(this.#child.stdout, 'data'), early])
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Resolves when none of its processes is alive and no file of its server is left: nothing announces that. */
  async untilGone(): Promise<void> {
    const files = () => readdirSync(this.#temporary).filter((name) => name.startsWith('leasehold'))
    await until('nothing of the demo is left', () => !groupIsAlive(this.#child.pid!) && files().length === 0)
  }

  /** The numbers of a line of the verdict, and its mark. */
  verdict(what: string): unknown[] {
    const line = this.output.split('\n').find((text) => text.trim().startsWith(what) && /[✓✗–]$/.test(text))
    assert.ok(line, `no line "${what}" in:\n${this.output}`)
    const [found, expected, mark] = line.trim().slice(what.length).trim().split(/\s+/)
    return [Number(found), Number(expected), mark]
  }
}

/** Ctrl-C, once it has printed this: it ends with the exit code for that, and nothing of it is left. */
export async function checkInterrupt(t: TestContext, program: string, printed: string): Promise<void> {
  const demo = new Demo(t, program)
  await demo.printed(printed)
  demo.kill('SIGINT')
  assert.equal(await demo.ended, 130, demo.output)
  await demo.untilGone()
}

/** --help prints how npm runs it, and so does an argument that it does not know. */
export async function checkUsage(t: TestContext, program: string, script: string): Promise<void> {
  const asked = new Demo(t, program, '--help')
  assert.equal(await asked.ended, 0)
  assert.ok(asked.output.startsWith(`Usage: npm run ${script}`), asked.output)
  const wrong = new Demo(t, program, '--guarded')
  assert.equal(await wrong.ended, 2)
  const [refusal, usage] = wrong.output.split('\n')
  assert.match(refusal!, /--guarded/)
  assert.ok(usage!.startsWith(`Usage: npm run ${script}`), wrong.output)
}

function groupIsAlive(group: number): boolean {
  try {
    return process.kill(-group, 0)
  } catch {
    return false
  }
}
