/** For tests of jobs and workflows: `leasehold/testing`. */
export { TestClock, type TestClockOptions, testClock } from './clock.ts'
export { TestDatabase, type TestDatabaseOptions, testDatabase } from './database.ts'
export type { Drained, DrainedRun, DrainOptions } from './drain.ts'
export {
  type AssertEnqueuedOptions,
  assertEnqueued,
  type EnqueuedJob,
  type EnqueuedOptions,
  type Expected,
  enqueued,
  refuteEnqueued,
} from './enqueued.ts'
export { type FailNextOptions, failNext } from './fail-next.ts'
export { Kill, type KillOptions, killAt } from './kill-at.ts'
export { type JobOutcome, type JobRun, type RunJobOptions, runJob } from './run-job.ts'
export type { RunToEndOptions } from './run-to-end.ts'
export { type EmbeddedServer, embeddedServer } from './server.ts'
