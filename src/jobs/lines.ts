/** What a claim walks at a time: a queue, or one bucket of a queue that is on the ring. */
export interface Line {
  readonly queue: string
  /** 0, or 1 + the bucket. */
  readonly line: number
}

export function nameOf({ queue, line }: Line): string {
  return line === 0 ? queue : `${queue}\n${line}`
}

/** The lines that a wake-up names. One that names a queue alone is about all of its lines. */
export function linesIn(message: string): { readonly queue: string; readonly lines: readonly number[] | undefined } {
  const end = message.lastIndexOf('\n')
  if (end < 0) return { queue: message, lines: undefined }
  return {
    queue: message.slice(0, end),
    lines: message
      .slice(end + 1)
      .split(',')
      .map(Number),
  }
}
