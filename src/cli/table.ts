/** Tables for a terminal: columns as wide as their longest cell, numbers to the right, the last column cut at the terminal's edge. */
import { cut, neutral, type Paint, type Style, widthOf } from './terminal.ts'

export interface Column<Item> {
  readonly title: string
  readonly align?: 'right'
  /** Neutralised before it is printed. */
  cell(item: Item): string
  /** A colour for the cell, such as red for a problem. */
  style?(item: Item): Style | undefined
  /** At most so many characters. Default: 40. */
  readonly most?: number
}

export function table<Item>(items: readonly Item[], columns: readonly Column<Item>[], paint: Paint, width = 0): string {
  const texts = items.map((item) => columns.map((column) => cut(neutral(column.cell(item)), column.most ?? 40)))
  const widths = columns.map(({ title }, at) => Math.max(title.length, ...texts.map((row) => widthOf(row[at]!))))
  if (width > 0) {
    const before = widths.slice(0, -1).reduce((sum, one) => sum + one + 2, 0)
    widths[widths.length - 1] = Math.max(8, Math.min(widths.at(-1)!, width - before))
  }
  const line = (cells: readonly string[], styles: readonly (Style | undefined)[]) =>
    cells
      .map((cell, at) => {
        const fitted = cut(cell, widths[at]!)
        const gap = ' '.repeat(Math.max(0, widths[at]! - widthOf(fitted)))
        const style = styles[at]
        const painted = style === undefined ? fitted : paint(style, fitted)
        if (columns[at]!.align === 'right') return gap + painted
        return at === cells.length - 1 ? painted : painted + gap
      })
      .join('  ')
      .trimEnd()
  const header = line(
    columns.map(({ title }) => title),
    columns.map(() => 'dim' as const),
  )
  const rows = items.map((item, at) =>
    line(
      texts[at]!,
      columns.map((column) => column.style?.(item)),
    ),
  )
  return `${[header, ...rows].join('\n')}\n`
}

/** `name  value` lines. */
export function list(entries: readonly (readonly [string, string])[], paint: Paint): string {
  const width = Math.max(...entries.map(([name]) => name.length))
  return entries.map(([name, value]) => `${paint('dim', name.padEnd(width))}  ${value}\n`).join('')
}
