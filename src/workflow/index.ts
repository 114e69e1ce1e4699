/** Durable workflows: `leasehold/workflow`. */
export { RunFinishedError, RunNotFoundError, StepFailedError, WorkflowChangedError } from './errors.ts'
export { type HandleRunsOptions, handleRuns } from './handle-runs.ts'
export { getRun, type RecordedStep, type RunSnapshot, type SentSignal } from './inspect.ts'
export {
  pauseRun,
  type RetriedFrom,
  type RetryFrom,
  resumeRun,
  retryFrom,
  type TerminateOptions,
  terminate,
} from './operate.ts'
export type { RetryOption } from './retry.ts'
export type { ChildOptions, JobStepOptions, Run, SleepOptions, Step, StepName, StepOptions, Wait } from './run.ts'
export { type SignalOptions, type Started, type StartOptions, signal, start } from './start.ts'
export { type Code, type Workflow, type WorkflowOptions, workflow } from './workflow.ts'
