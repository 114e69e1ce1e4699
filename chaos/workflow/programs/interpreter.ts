/**
 * Executes the program of a run by the calls of `run`, and notes what it does. Between two calls it awaits nothing else. Each
 * execution of a function has a token, which its result carries: so a record names the execution that it is of.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { Fatal } from '../../../src/index.ts'
import { type Run, type Step, StepFailedError, type Workflow } from '../../../src/workflow/index.ts'
import type { Witness } from '../../common/witness.ts'
import type { Leaf, Program } from '../program.ts'
import { type RunInput, work } from './workflows.ts'

export interface Made {
  readonly v: string
  readonly by: string
}

/** Long enough that some die in it. */
const TX_MS = 60

/** A signal that the starter sent. */
interface Sent {
  readonly i: number
}

export class Interpreter {
  readonly #witness: Witness
  readonly #self: () => Workflow<RunInput, RunInput, unknown>
  /** In any process of the run. */
  readonly #isFirst: (what: string) => boolean
  #slices = 0
  #executions = 0
  /** What the execution that began last will return. */
  lastBegun: Made | undefined
  /** How often this process has executed each tx step. */
  readonly #transactions = new Map<string, number>()

  constructor(witness: Witness, self: () => Workflow<RunInput, RunInput, unknown>, isFirst: (what: string) => boolean) {
    this.#witness = witness
    this.#self = self
    this.#isFirst = isFirst
  }

  run(run: Run, { program }: RunInput): Promise<unknown> {
    const slice = ++this.#slices
    this.#witness.write('slice', { w: run.id, s: slice })
    return this.#follow({ run, slice }, program)
  }

  async #follow(on: Slice, program: Program): Promise<unknown> {
    switch (program.do) {
      case 'sequence': {
        const all: unknown[] = []
        for (const each of program.of) all.push(await this.#follow(on, each))
        return all
      }
      case 'parallel':
        return Promise.all(program.of.map((each) => this.#follow(on, each)))
      case 'loop': {
        const all: unknown[] = []
        for (let i = 1; i <= program.times; i++) all.push(await this.#leaf(on, program.of, i))
        return all
      }
      case 'note':
        await on.run.note({ slice: on.slice })
        return null
      case 'commit':
        on.run.commit()
        return null
      case 'compensate':
        return on.run.compensate('planned')
      case 'fail':
        return on.run.step(program.name, () => {
          throw new Fatal('planned')
        })
      default:
        return this.#leaf(on, program, 1)
    }
  }

  async #leaf(on: Slice, leaf: Leaf, i: number): Promise<unknown> {
    const { run } = on
    const { name } = leaf
    const v = `${run.id}/${name}.${i}`
    switch (leaf.do) {
      case 'step': {
        const { undo } = leaf
        const retry = { attempts: 10, backoff: { first: 20, max: 100 } }
        const compensate = (result: Made, step: Step) =>
          this.#execute(on, { type: 'undo', name, i, attempt: step.attempt, fails: undo!.fails }, `undone ${result.v}`)
        const { v: made } = await run.step<Made>(
          name,
          undo === undefined ? { retry } : { retry, compensate },
          ({ attempt }) => this.#execute(on, { type: 'step', name, i, attempt, fails: leaf.fails }, v, leaf.ms),
        )
        return made
      }
      case 'tx': {
        const made = await run.tx<Made>(name, async (tx) => {
          // It does not get the number of its attempt. So it fails as often as planned in each process.
          const attempt = (this.#transactions.get(v) ?? 0) + 1
          this.#transactions.set(v, attempt)
          return this.#execute(on, { type: 'tx', name, i, attempt, fails: leaf.fails }, v, TX_MS, async (by) => {
            const values = [run.id, name, i, by]
            await tx.query('insert into chaos.effect (run, name, i, execution) values ($1, $2, $3, $4)', values)
            if (leaf.kills && this.#isFirst(v)) {
              this.#witness.write('dies', { w: run.id })
              process.kill(process.pid, 'SIGKILL')
            }
          })
        })
        return made.v
      }
      case 'sleep':
        this.#witness.write('sleeps', { w: run.id, s: on.slice, name, i, ms: leaf.ms })
        await run.sleep(leaf.ms)
        this.#witness.write('slept', { w: run.id, s: on.slice, name, i })
        return 'slept'
      case 'signal': {
        const sent = await run.signal<Sent>(name)
        this.#witness.write('received', { w: run.id, s: on.slice, name, i, sent })
        return `signal ${sent.i}`
      }
      case 'any': {
        const [came, late] = [`${name} came`, `${name} late`]
        const first = await run.any({ [came]: run.signal<Sent>(name), [late]: run.sleep(leaf.ms) })
        this.#witness.write('first', { w: run.id, s: on.slice, name, winner: first.name })
        return first.name
      }
      case 'job':
        return made(run.job(work, { run: run.id, name, i, fails: leaf.fails }, { name }))
      case 'child':
        return made(run.child(this.#self(), { program: leaf.program }, { name }))
    }
  }

  /** Notes when it begins and when it ends. Fails as often as planned. */
  async #execute(
    on: Slice,
    what: {
      readonly type: string
      readonly name: string
      readonly i: number
      readonly attempt: number
      readonly fails: number
    },
    v: string,
    ms = 0,
    effect: (by: string) => Promise<unknown> = async () => {},
  ): Promise<Made> {
    const by = `${this.#witness.name}/${++this.#executions}`
    const { fails, ...rest } = what
    const line = { w: on.run.id, s: on.slice, x: by, ...rest }
    this.#witness.write('begins', line)
    this.lastBegun = { v, by }
    try {
      if (ms > 0) await wait(ms)
      await effect(by)
      if (what.attempt <= fails) throw new Error('planned')
    } catch (error) {
      this.#witness.write('throws', { ...line, error: String(error) })
      throw error
    }
    this.#witness.write('ends', line)
    return { v, by }
  }
}

/** One execution of a run's code in this process. */
interface Slice {
  readonly run: Run
  readonly slice: number
}

/** The result of a job or a run that may fail. */
async function made(wait: PromiseLike<unknown>): Promise<unknown> {
  try {
    return await wait
  } catch (error) {
    if (error instanceof StepFailedError) return 'failed'
    throw error
  }
}
