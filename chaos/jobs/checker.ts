/**
 * Compares the evidence with the promises. Knows nothing of the library but its public views: it compares witness files and
 * rows with the plan. rules/*.ts hold the rules, and each workload its own.
 */
import type { Finding } from '../common/finding.ts'
import type { History } from './history.ts'
import { claimRules } from './rules/claims.ts'
import { eventRules } from './rules/events.ts'
import { operatorRules } from './rules/operators.ts'
import { processRules } from './rules/processes.ts'
import { workRules } from './rules/work.ts'
import { WORKLOADS } from './workloads/all.ts'

export function check(history: History): Finding[] {
  const works = [...history.works.values()]
  return [
    ...workRules(history),
    ...claimRules(history),
    ...eventRules(history),
    ...operatorRules(history),
    ...WORKLOADS.flatMap(
      ({ name, check }) =>
        check?.(
          history,
          works.filter(({ workload }) => workload === name),
        ) ?? [],
    ),
    ...processRules(history),
  ]
}
