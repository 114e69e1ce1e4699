/** Plants the part of a bug that is in a process. */
import type pg from 'pg'
import { withTransaction } from '../../../src/index.ts'
import type { Run, Step, StepOptions } from '../../../src/workflow/index.ts'
import { rewriteStatements } from '../../common/rewrite.ts'
import type { Witness } from '../../common/witness.ts'
import { PLANTS } from './all.ts'

export function plantStatements(name: string, witness: Witness): void {
  const { rewrite = [] } = PLANTS[name]!
  if (rewrite.length > 0) rewriteStatements(rewrite, witness)
}

type Work = (step: Step) => unknown
/** One call of the code. */
type Changed = Partial<Record<'step' | 'tx' | 'any', (...args: never[]) => Promise<unknown>>>

/** The run with the bug, or as it is. */
export function plantedRun(
  name: string | undefined,
  run: Run,
  { pool, witness, begun }: { readonly pool: pg.Pool; readonly witness: Witness; readonly begun: () => unknown },
): Run {
  const bug = name === undefined ? undefined : PLANTS[name]!.run
  if (bug === undefined) return run
  witness.write('planted')
  const changed = CHANGES[bug](run, pool, begun)
  return new Proxy(run, {
    get: (target, key) => {
      const value = changed[key as keyof Changed] ?? Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

type Change = (run: Run, pool: pg.Pool, begun: () => unknown) => Changed

const CHANGES: Readonly<Record<NonNullable<(typeof PLANTS)[string]['run']>, Change>> = {
  'records before the work': (run, _, begun) => ({
    step: (name: string, options: StepOptions, work: Work | undefined) => {
      if (work === undefined) return run.step(name, options as Work)
      return run.step(name, options, async (step) => {
        Promise.resolve(work(step)).catch(() => {})
        return begun()
      })
    },
  }),
  'commits apart from the record': (run, pool) => ({
    tx: (name: string, work: (tx: pg.ClientBase) => Promise<unknown>) =>
      run.step(name, () => withTransaction(pool, (tx) => work(tx as unknown as pg.ClientBase))),
  }),
  'undoes forwards': (run) => {
    const undos: NonNullable<StepOptions['compensate']>[] = []
    const results: unknown[] = []
    let next = 0
    return {
      step: async (name: string, options: StepOptions, work: Work | undefined) => {
        const { compensate, ...rest } = options
        if (work === undefined) return run.step(name, options as Work)
        if (compensate === undefined) return run.step(name, rest, work)
        const undo = (_: unknown, step: Step) => {
          // Attempts of one compensation are those of one step.
          if (step.attempt === 1) next++
          return undos[next - 1]!(results[next - 1], step)
        }
        const result = await run.step(name, { ...rest, compensate: undo }, work)
        undos.push(compensate)
        results.push(result)
        return result
      },
    }
  },
  'ignores the winner': (run) => ({
    any: async (choices: Parameters<Run['any']>[0]) => {
      const first = (await run.any(choices)) as { readonly name: string }
      return { ...first, name: Object.keys(choices)[0] }
    },
  }),
}
