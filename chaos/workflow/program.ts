/**
 * The program of a run: a tree of steps and waits, which is data. The worker executes it (programs/interpreter.ts); the checker computes
 * by itself what must come of it (rules/expected.ts). Names are unique within a program; in a loop the turns are counted.
 */
import type { SeededRandom } from '../../tools/seeded-random.ts'

export type Leaf =
  | { readonly do: 'step'; readonly name: string; readonly ms: number; readonly fails: number; readonly undo?: Undo }
  /** kills: the first time, its worker dies before the commit. */
  | { readonly do: 'tx'; readonly name: string; readonly fails: number; readonly kills?: boolean }
  | { readonly do: 'sleep'; readonly name: string; readonly ms: number }
  | { readonly do: 'signal'; readonly name: string }
  /** A signal, or this time. */
  | { readonly do: 'any'; readonly name: string; readonly ms: number }
  | { readonly do: 'job'; readonly name: string; readonly fails: boolean }
  | { readonly do: 'child'; readonly name: string; readonly program: Program }

/** How often the compensation fails before it succeeds. */
export interface Undo {
  readonly fails: number
}

export type Program =
  | Leaf
  | { readonly do: 'sequence'; readonly of: readonly Program[] }
  | { readonly do: 'parallel'; readonly of: readonly Program[] }
  | { readonly do: 'loop'; readonly times: number; readonly of: Leaf }
  | { readonly do: 'note' }
  | { readonly do: 'commit' }
  /** A step that fails for good. */
  | { readonly do: 'fail'; readonly name: string }
  /** run.compensate(). */
  | { readonly do: 'compensate' }

/** A leaf, and how often it is executed. */
export interface Occurring {
  readonly leaf: Leaf
  readonly times: number
}

export function leavesOf(program: Program): Occurring[] {
  switch (program.do) {
    case 'sequence':
    case 'parallel':
      return program.of.flatMap(leavesOf)
    case 'loop':
      return [{ leaf: program.of, times: program.times }]
    case 'note':
    case 'commit':
    case 'fail':
    case 'compensate':
      return []
    default:
      return [{ leaf: program, times: 1 }]
  }
}

/** How a program ends, unless it is cancelled. */
export function endOf(program: Program): 'returns' | 'fails' | 'compensates' {
  if (program.do === 'fail') return 'fails'
  if (program.do === 'compensate') return 'compensates'
  if (program.do !== 'sequence' && program.do !== 'parallel') return 'returns'
  return program.of.map(endOf).find((end) => end !== 'returns') ?? 'returns'
}

/** Makes programs. Each has its own numbers for names. */
export class Grower {
  readonly #random: SeededRandom
  #names = 0
  #killers = 0

  constructor(random: SeededRandom) {
    this.#random = random
  }

  /** Of these, in turns; the rest is random. */
  static readonly SHAPES = 9

  /** A shape that every plan has, or a random one. */
  program(shape: number): Program {
    this.#names = 0
    const undone = (fails: number) => this.#step({ undo: { fails } })
    switch (shape) {
      case 0:
        return sequence(loop(3, this.#step()), loop(2, this.#tx()), this.#sleep(300), this.#step())
      case 1:
        return sequence(this.#step(), loop(4, this.#signal()), this.#tx(this.#killers++ % 3 === 0))
      case 2:
        return sequence(undone(0), undone(1), undone(0), undone(1), { do: 'fail', name: 'fail' })
      case 3:
        return sequence(parallel(this.#child(), this.#job(false), this.#any()), this.#step())
      case 4:
        return sequence(this.#step({ ms: 2_500, of: 'slow' }), this.#tx(), this.#step({ ms: 400 }))
      case 5:
        return sequence(undone(0), undone(0), this.#signal())
      case 6:
        return sequence(
          parallel(undone(0), sequence(undone(1), undone(0)), loop(2, undone(0))),
          parallel(this.#tx(), this.#sleep(200)),
          { do: 'compensate' },
        )
      case 7:
        return sequence(this.#tx(), this.#any(), this.#any(), loop(2, this.#job(false)), this.#job(true))
      default:
        return this.#any9()
    }
  }

  #any9(): Program {
    const blocks = Array.from({ length: 2 + this.#upTo(3) }, () => this.#block(true))
    const commits = this.#luck() < 0.25
    if (commits)
      blocks.splice(1 + this.#upTo(blocks.length - 1), 0, this.#step({ undo: { fails: 0 } }), { do: 'commit' })
    const luck = this.#luck()
    if (luck < 0.12) blocks.push({ do: 'fail', name: 'fail' })
    else if (luck < 0.2) blocks.push(parallel({ do: 'fail', name: 'fail' }, this.#step(), this.#sleep(200)))
    else if (luck < 0.3) blocks.push({ do: 'compensate' })
    return sequence(...blocks)
  }

  #block(isTop: boolean): Program {
    const luck = this.#luck()
    if (luck < 0.5 || !isTop) return this.#leaf(isTop)
    if (luck < 0.62) return loop(2 + this.#upTo(2), this.#looped())
    if (luck < 0.68) return { do: 'note' }
    return parallel(
      ...Array.from({ length: 2 + this.#upTo(2) }, () =>
        this.#luck() < 0.5 ? this.#leaf(true) : sequence(this.#leaf(true), this.#leaf(true)),
      ),
    )
  }

  #leaf(isTop: boolean): Leaf {
    const luck = this.#luck()
    if (luck < 0.35) return this.#step(this.#luck() < 0.5 ? { undo: { fails: this.#luck() < 0.3 ? 1 : 0 } } : {})
    if (luck < 0.55) return this.#tx()
    if (luck < 0.68) return this.#sleep(100 + this.#upTo(900))
    if (luck < 0.78) return this.#job(this.#luck() < 0.2)
    if (luck < 0.85 || !isTop) return this.#any()
    return luck < 0.94 ? this.#signal() : this.#child()
  }

  #looped(): Leaf {
    const luck = this.#luck()
    if (luck < 0.35) return this.#step(this.#luck() < 0.5 ? { undo: { fails: 0 } } : {})
    if (luck < 0.6) return this.#tx()
    if (luck < 0.75) return this.#sleep(100 + this.#upTo(200))
    return luck < 0.9 ? this.#signal() : this.#job(false)
  }

  #step({ ms, undo, of = 'step' }: { readonly ms?: number; readonly undo?: Undo; readonly of?: string } = {}): Leaf {
    const fails = this.#luck() < 0.2 ? 1 + this.#upTo(2) : 0
    const step = { do: 'step' as const, name: this.#name(of), ms: ms ?? this.#upTo(150), fails }
    return undo === undefined ? step : { ...step, undo }
  }

  #tx(kills = false): Leaf {
    return { do: 'tx', name: this.#name('tx'), fails: this.#luck() < 0.15 ? 1 : 0, ...(kills ? { kills } : {}) }
  }

  #sleep(ms: number): Leaf {
    return { do: 'sleep', name: this.#name('sleep'), ms }
  }

  #signal(): Leaf {
    return { do: 'signal', name: this.#name('signal') }
  }

  #any(): Leaf {
    return { do: 'any', name: this.#name('any'), ms: 300 + this.#upTo(1_200) }
  }

  #job(fails: boolean): Leaf {
    return { do: 'job', name: this.#name('job'), fails }
  }

  /** It waits for no signal: no process would send it. */
  #child(): Leaf {
    const name = this.#name('child')
    const blocks = Array.from({ length: 2 + this.#upTo(2) }, () => this.#block(false))
    const luck = this.#luck()
    if (luck < 0.2) blocks.push({ do: 'compensate' })
    else if (luck < 0.3) blocks.push({ do: 'fail', name: 'fail' })
    return { do: 'child', name, program: sequence(...blocks) }
  }

  #name(of: string): string {
    return `${of}${++this.#names}`
  }

  #luck(): number {
    return this.#random()
  }

  /** A whole number from 0 on. */
  #upTo(below: number): number {
    return Math.floor(this.#random() * below)
  }
}

export function sequence(...of: Program[]): Program {
  return { do: 'sequence', of }
}

export function parallel(...of: Program[]): Program {
  return { do: 'parallel', of }
}

export function loop(times: number, of: Leaf): Program {
  return { do: 'loop', times, of }
}
