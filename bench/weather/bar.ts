/** What was measured, and what it must not exceed. */
export interface Bar {
  readonly name: string
  readonly value: number
  readonly unit: string
  readonly bar: number
  /** Whether the value must reach the bar, rather than stay below it. */
  readonly isLeast?: true
  readonly holds: boolean
}

export function atLeast(name: string, value: number, unit: string, bar: number): Bar {
  return { name, value, unit, bar, isLeast: true, holds: value >= bar }
}

export function inWords({ name, value, unit, bar, isLeast, holds }: Bar): string {
  return `${holds ? 'holds ' : 'MISSED'}  ${name}: ${Math.round(value * 100) / 100} ${unit} (${isLeast ? 'at least' : 'at most'} ${bar})`
}

export function atMost(name: string, value: number, unit: string, bar: number): Bar {
  return { name, value, unit, bar, holds: value <= bar }
}
