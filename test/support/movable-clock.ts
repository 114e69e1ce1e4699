// The monotonic clock of this process, moved on by a test. Timers do not know of it.
import type { TestContext } from 'node:test'

export function movableClock(t: TestContext): { pass(ms: number): void } {
  let passed = 0
  const now = performance.now.bind(performance)
  t.mock.method(performance, 'now', () => now() + passed)
  return {
    pass: (ms) => {
      passed += ms
    },
  }
}
