/** The output: the story as it happens and, below it on a terminal, the progress, drawn in place. */
import type { Counts } from './shop.ts'

const WIDTH = 78
const PLAIN_EVERY_MS = 1_000
const COLOURS = { red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36, bold: 1, dim: 2 }

export type Colour = keyof typeof COLOURS
type Output = NodeJS.WriteStream

export class Screen {
  readonly #out: Output
  readonly #redraws: boolean
  readonly #colours: boolean
  readonly #startedAt = performance.now()
  #drawn: string[] = []
  #plainAt = 0

  /** `height`: of what is drawn in place. */
  constructor(out: Output = process.stdout, height = 0) {
    this.#out = out
    const isTerminal = out.isTTY === true && process.env.TERM !== 'dumb'
    this.#colours = isTerminal && !process.env.NO_COLOR
    // In a narrow or low window lines wrap or scroll away, and what is drawn in place would leave pieces behind.
    this.#redraws = isTerminal && out.columns > WIDTH && out.rows > height
    if (this.#redraws) out.write('\x1b[?25l')
  }

  /** Text as it is, for the beginning and the end. */
  print(text: string): void {
    this.#write(`${text}\n`)
  }

  /** What happens now. The colour is for the words before the first colon. */
  say(text: string, colour?: Colour): void {
    const seconds = ((performance.now() - this.#startedAt) / 1_000).toFixed(1).padStart(6)
    const [first = '', ...others] = wrap(text, this.#width - 12)
    const colon = first.indexOf(':')
    const lines = [this.paint(first.slice(0, colon), colour) + first.slice(colon), ...others]
    const margin = (index: number) => (index === 0 ? this.paint(`${seconds} s   `, 'dim') : ' '.repeat(11))
    this.#write(lines.map((line, index) => `${margin(index)}${line}\n`).join(''))
  }

  /** Where the jobs are, of so many that there will be. */
  progress(counts: Counts, total: number): void {
    const { pending, processing, completed, deadLetters } = counts
    const words = `pending ${pending}, processing ${processing}, completed ${completed}, dead letter ${deadLetters}`
    this.draw(() => ['', `  ${this.#bar(counts, total)}`, `  ${this.#legend(counts)}`], words)
  }

  /** Lines in place of those that were drawn last. Where that cannot be done, the words, once a second. */
  draw(lines: () => string[], words: string): void {
    if (this.#redraws) this.#redraw(lines())
    else if (performance.now() - this.#plainAt >= PLAIN_EVERY_MS) {
      this.#plainAt = performance.now()
      this.#out.write(`${' '.repeat(11)}${words}\n`)
    }
  }

  /** The last state of the bar stays where it is. */
  keep(): void {
    this.#drawn = []
    this.print('')
  }

  close(): void {
    if (this.#redraws) this.#out.write('\x1b[?25h')
  }

  paint(text: string, colour?: Colour): string {
    return this.#colours && colour !== undefined && text !== '' ? `\x1b[${COLOURS[colour]}m${text}\x1b[0m` : text
  }

  #bar({ pending, processing, completed, deadLetters }: Counts, total: number): string {
    const width = this.#width - 4
    // Boundaries are rounded, not lengths, so that the parts always add up.
    const column = (jobs: number) => Math.round((jobs / total) * width)
    const parts = [
      { jobs: completed, block: '█', colour: 'green' },
      { jobs: deadLetters, block: '█', colour: 'red' },
      { jobs: processing, block: '▓', colour: 'yellow' },
      { jobs: pending, block: '▒', colour: 'cyan' },
    ] as const
    let before = 0
    let bar = ''
    for (const { jobs, block, colour } of parts) {
      bar += this.paint(block.repeat(column(before + jobs) - column(before)), colour)
      before += jobs
    }
    return bar + this.paint('░'.repeat(Math.max(0, width - column(before))), 'dim')
  }

  #legend({ pending, processing, completed, deadLetters }: Counts): string {
    const part = (block: string, colour: Colour, count: number, name: string) =>
      `${this.paint(block, colour)} ${String(count).padStart(3)} ${name}`
    return [
      part('█', 'green', completed, 'completed'),
      part('▓', 'yellow', processing, 'processing'),
      part('▒', 'cyan', pending, 'pending'),
      part('█', 'red', deadLetters, `dead letter${deadLetters === 1 ? '' : 's'}`),
    ].join('   ')
  }

  get #width(): number {
    return Math.min(WIDTH, (this.#out.columns || WIDTH + 1) - 1)
  }

  #write(text: string): void {
    const below = this.#drawn
    this.#redraw([])
    this.#out.write(text)
    this.#redraw(below)
  }

  #redraw(lines: string[]): void {
    const up = this.#drawn.length > 0 ? `\x1b[${this.#drawn.length}A\r\x1b[J` : ''
    this.#out.write(up + lines.map((line) => `${line}\n`).join(''))
    this.#drawn = lines
  }
}

/** As in a sentence. */
export function and(words: readonly (string | number)[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}
