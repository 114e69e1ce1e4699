// `npm run chaos:outbox`: producers that publish in transactions, relays and consumers with an inbox, while processes are killed
// and stopped, the broker and the database crash, connections are cut and days pass. Exits 0 if every rule held, 1 if one did not, 3
// if the run proves nothing because something that should happen never did.
//
// plan.ts makes the plan from the seed, drive.ts carries it out, checker.ts judges the evidence.
import { runCommand } from '../common/command.ts'
import { check } from './checker.ts'
import { countsOf, missing } from './coverage.ts'
import { drive, evidenceIn } from './drive.ts'
import { planOf } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import { tryPlants } from './plants/try.ts'

process.exitCode = await runCommand({
  name: 'chaos:outbox',
  plants: Object.keys(PLANTS),
  planOf,
  drive,
  evidenceIn,
  judge: (_, evidence) => {
    const counts = countsOf(evidence)
    return { counts, findings: check(evidence), missing: missing(counts) }
  },
  tryPlants,
})
