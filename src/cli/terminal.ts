/** Text for people: neutralised, coloured, short. */
import { styleText } from 'node:util'

/** Where a command reads and writes. A test passes its own. */
export interface Io {
  readonly stdout: Output
  readonly stderr: Output
  readonly stdin?: NodeJS.ReadStream
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborts when the process is asked to end. */
  readonly signal: AbortSignal
}

export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
}

export type Style = Parameters<typeof styleText>[0]

/** C0 and C1 controls, DEL, separators of lines, and characters that reverse or hide text. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Stored text may hold escape sequences, which a terminal would obey. Each such character becomes \u{…}. */
export function neutral(text: string): string {
  return text.replaceAll(UNSAFE, (char) => {
    if (char === '\n') return '\\n'
    if (char === '\t') return '\\t'
    return `\\u{${char.codePointAt(0)!.toString(16)}}`
  })
}

export function hasColour(output: Output, env: Io['env']): boolean {
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== '') return false
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== '' && env.FORCE_COLOR !== '0') return true
  return output.isTTY === true && env.TERM !== 'dumb'
}

/** Colours text, or leaves it. */
export type Paint = (style: Style, text: string) => string

export function paintFor(output: Output, env: Io['env']): Paint {
  if (!hasColour(output, env)) return (_style, text) => text
  return (style, text) => styleText(style, text, { validateStream: false })
}

/** JSON for a terminal: as it is stored, but for escapes that a terminal would obey. JSON.stringify leaves C1 controls. */
export function neutralJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent)!.replaceAll(/[\u007f-\u009f\p{Cf}\u2028\u2029]/gu, (char) =>
    // A pair of surrogates is two escapes in JSON.
    Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  )
}

/** Of Chinese, Japanese and Korean text, and of emoji: a character takes two columns. */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u
const COMBINING = /\p{M}/u

function columnsOf(char: string): number {
  if (char < '\u0300') return 1
  if (COMBINING.test(char)) return 0
  return WIDE.test(char) ? 2 : 1
}

/** The columns that a terminal shows it in. */
export function widthOf(text: string): number {
  let width = 0
  for (const char of text) width += columnsOf(char)
  return width
}

/** At most so many columns. */
export function cut(text: string, most: number): string {
  let width = 0
  let kept = 0
  let end = 0
  for (const char of text) {
    width += columnsOf(char)
    if (width <= most - 1) kept = end + char.length
    if (width > most) return `${text.slice(0, kept)}…`
    end += char.length
  }
  return text
}
