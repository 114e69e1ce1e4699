/** What was measured, and what it must not exceed. */
export interface Bar {
  readonly name: string
  readonly value: number
  readonly unit: string
  readonly bar: number
  readonly holds: boolean
}

export function atMost(name: string, value: number, unit: string, bar: number): Bar {
  return { name, value, unit, bar, holds: value <= bar }
}
