/** Tables for a terminal. */

/** Columns from `right` on hold numbers. */
export function columns(head: readonly string[], rows: readonly (readonly string[])[], right: number): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]!.length)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => (at < right ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)))
      .join('  ')
      .trimEnd()
  return [line(head), ...rows.map(line)].join('\n')
}

export function decimal(value: number | null, digits = 1): string {
  return value === null ? '' : value.toFixed(digits)
}
