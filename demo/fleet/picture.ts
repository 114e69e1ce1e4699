/** The ring as it is drawn: one character for each of the 1024 buckets. */
import { BUCKETS } from '../../src/core/bucket.ts'
import type { Colour, Screen } from '../screen.ts'
import type { Accounts, Roster } from './accounts.ts'
import type { Crew, WorkerProcess } from './crew.ts'

const COLUMNS = 64
const ROWS = BUCKETS / COLUMNS
const COLOURS: readonly Colour[] = ['green', 'cyan', 'yellow', 'magenta', 'blue']
const NO_OWNER = '·'
const TWO_OWNERS = '#'

/** Of the picture with its legend and an empty line. */
export const HEIGHT = ROWS + 5

export class Picture {
  readonly #crew: Crew
  readonly #accounts: Accounts
  readonly #screen: Screen
  #roster: Roster = { seats: new Map(), entries: new Map() }
  /** Of workers that have given their seat back, too: their jobs are still listed. */
  readonly #letters = new Map<string, string>()

  constructor(crew: Crew, accounts: Accounts, screen: Screen) {
    this.#crew = crew
    this.#accounts = accounts
    this.#screen = screen
  }

  /** Draws it as it is now. */
  async draw(): Promise<void> {
    this.#roster = await this.#accounts.roster()
    for (const [worker, seat] of this.#roster.seats) this.#letters.set(worker, letterOf(seat))
    const here = this.#crew.workers.filter(({ condition }) => condition === 'runs' || condition === 'stopped')
    const seated = here.filter(({ name }) => this.#letters.has(name))
    const words = seated.map((worker) => `${this.#letter(worker)} ${percent(worker)}`).join(', ')
    const all = [...this.#roster.entries.values()].reduce((sum, n) => sum + n, 0)
    this.#screen.draw(() => this.#lines(seated, all), `${words || 'no owner'}; ${all} jobs done`)
  }

  /** The worker of each bucket, or undefined if it is not exactly one. */
  owners(): (WorkerProcess | undefined)[] {
    const owners = this.#live()
    return owners.map((of) => (of.length === 1 ? of[0] : undefined))
  }

  /** Workers that run and look for jobs in a bucket. */
  #live(): WorkerProcess[][] {
    const owners: WorkerProcess[][] = Array.from({ length: BUCKETS }, () => [])
    for (const worker of this.#crew.workers) {
      if (worker.condition === 'runs') for (const bucket of worker.buckets) owners[bucket]!.push(worker)
    }
    return owners
  }

  #lines(here: readonly WorkerProcess[], all: number): string[] {
    const cells = this.#live().map((of, bucket) => {
      if (of.length > 1) return TWO_OWNERS
      if (of.length === 1) return this.#letter(of[0]!)
      const stopped = here.find(({ condition, buckets }) => condition === 'stopped' && buckets.has(bucket))
      return stopped === undefined ? NO_OWNER : this.#letter(stopped).toLowerCase()
    })
    const rows = Array.from({ length: ROWS }, (_, row) => cells.slice(row * COLUMNS, (row + 1) * COLUMNS))
    const legend = here.map((worker) => {
      const letter = this.#letter(worker)
      const jobs = this.#roster.entries.get(worker.name) ?? 0
      const words = `${letter} ${worker.name.padEnd(9)} ${percent(worker).padStart(4)} ${String(jobs).padStart(4)} jobs`
      return this.#screen.paint(words, colourOf(letter))
    })
    while (legend.length < 4) legend.push('')
    const free = cells.filter((cell) => cell === NO_OWNER).length
    const twice = cells.filter((cell) => cell === TWO_OWNERS).length
    const notes = [
      `${all} jobs done`,
      free > 0 ? `${NO_OWNER} ${free} buckets wait for an owner` : '',
      twice > 0 ? `${TWO_OWNERS} ${twice} have two` : '',
    ]
    return [
      '',
      ...rows.map((row) => `    ${this.#paint(row)}`),
      `    ${legend.slice(0, 2).join('   ')}`,
      `    ${legend.slice(2, 5).join('   ')}`,
      `    ${notes.filter((note) => note !== '').join('   ')}`,
    ]
  }

  /** Neighbours of one colour are painted together. */
  #paint(row: readonly string[]): string {
    let painted = ''
    for (let from = 0; from < row.length; ) {
      let to = from
      while (row[to] === row[from]) to++
      painted += this.#screen.paint(row.slice(from, to).join(''), colourOf(row[from]!))
      from = to
    }
    return painted
  }

  #letter({ name }: WorkerProcess): string {
    return this.#letters.get(name) ?? '?'
  }
}

function letterOf(seat: number): string {
  return String.fromCharCode('A'.charCodeAt(0) + seat - 1)
}

function colourOf(cell: string): Colour {
  if (cell === TWO_OWNERS) return 'red'
  const isSeat = /^[A-Z]$/.test(cell)
  return isSeat ? COLOURS[(cell.charCodeAt(0) - 'A'.charCodeAt(0)) % COLOURS.length]! : 'dim'
}

function percent({ buckets }: WorkerProcess): string {
  return `${Math.round((buckets.size / BUCKETS) * 100)} %`
}
