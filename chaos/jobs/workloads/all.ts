import type { Workload } from '../workload.ts'
import { plain } from './plain.ts'

export const WORKLOADS: readonly Workload[] = [plain]

const byName = new Map(WORKLOADS.map((workload) => [workload.name, workload]))

export function workloadOf(name: string): Workload {
  const found = byName.get(name)
  if (found === undefined) throw new Error(`there is no workload ${name}`)
  return found
}
