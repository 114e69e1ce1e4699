/** One measured value and the limit it must keep to. */
export interface Bar {
  readonly name: string
  readonly value: number
  readonly unit: string
  readonly bar: number
  readonly holds: boolean
}
