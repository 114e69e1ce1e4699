/** The common part of both benchmarks' command lines. */
import { type ParseArgsConfig, parseArgs } from 'node:util'

/** A mistake on the command line: reported with the usage, not with a stack. */
export class UsageError extends Error {}

export function readOptions<const Options extends NonNullable<ParseArgsConfig['options']>>(options: Options) {
  try {
    return parseArgs({ options }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

export function checkJobs(n: string): number {
  const jobs = Number(n)
  if (!Number.isInteger(jobs) || jobs < 1_000 || jobs > 1_000_000) throw new UsageError('--n takes 1000 to 1000000.')
  return jobs
}

export function checkMinutes(text: string): number {
  const minutes = Number(text)
  if (!(minutes >= 0.1 && minutes <= 60)) throw new UsageError('--minutes takes 0.1 to 60.')
  return minutes
}

/** Exit code 2 for a mistake of the caller's, 1 for anything else. */
export async function runOrExplain(run: () => Promise<void>, usage: string): Promise<void> {
  try {
    await run()
  } catch (error) {
    const isUsage = error instanceof UsageError
    console.error(isUsage ? `${error.message}\n${usage}` : error)
    process.exitCode = isUsage ? 2 : 1
  }
}
