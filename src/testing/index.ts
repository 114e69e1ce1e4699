/** For tests of jobs and workflows: `leasehold/testing`. */
export { TestClock, type TestClockOptions, testClock } from './clock.ts'
export { Kill, type KillOptions, killAt } from './kill-at.ts'
export type { RunToEndOptions } from './run-to-end.ts'
