/** A workflow engine: starts runs of three steps that do nothing, so many at a time, and resolves when all have ended. */
export interface Engine {
  readonly version: string
  /** Why these settings are its best. */
  readonly why: string
  /** Makes its tables, and returns a function that executes runs until as many have ended. */
  open(url: string, atATime: number): Promise<Opened>
}

export interface Opened {
  run(runs: number): Promise<void>
  close(): Promise<unknown>
}

/** Calls `one` for each number from `from` on, so many at a time. */
export async function atATime(runs: number, most: number, one: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const lines = Array.from({ length: Math.min(most, runs) }, async () => {
    while (next < runs) await one(next++)
  })
  await Promise.all(lines)
}
