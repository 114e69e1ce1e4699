// `npm run chaos:jobs`: workers, claims by hand and producers, while processes are killed, replies are cut, servers crash
// and fail over, and people pause, cancel and redrive. Exits 0 if every rule held, 1 if one did not, 3 if the run proves
// nothing because something that should happen never did.
//
// plan.ts makes the plan from the seed, drive.ts carries it out, checker.ts judges the evidence.
import { runCommand } from '../common/command.ts'
import { LEASE_MS, SWEEP_MS } from '../common/drive.ts'
import { check } from './checker.ts'
import { countsOf, missing } from './coverage.ts'
import { drive, evidenceIn } from './drive.ts'
import { historyOf } from './history.ts'
import { planOf } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import { tryPlants } from './plants/try.ts'

process.exitCode = await runCommand({
  name: 'chaos:jobs',
  plants: Object.keys(PLANTS),
  planOf,
  drive,
  evidenceIn,
  judge: (plan, { lines, rows }) => {
    const history = historyOf(plan, lines, rows, { leaseMs: LEASE_MS, sweepMs: SWEEP_MS })
    const counts = countsOf(history)
    return { counts, findings: check(history), missing: missing(counts) }
  },
  tryPlants,
})
