/** Leasehold beside its peers. */
import { parseArgs } from 'node:util'
import { type Bench, FULL, QUICK, type Sizes, withProcess } from './bench.ts'
import { CONTENDERS, type ContenderName } from './contenders/names.ts'
import { contendersNode, installPackages } from './packages.ts'
import type { Description } from './process/protocol.ts'
import { Remote } from './process/remote.ts'
import { Results } from './results.ts'
import { drainScenario } from './scenarios/drain.ts'
import { BenchServer } from './server.ts'

const { values } = parseArgs({
  options: {
    n: { type: 'string' },
    scenario: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
  },
})
const began = performance.now()
const say = (text: string) =>
  process.stderr.write(`${String(Math.round((performance.now() - began) / 1000)).padStart(4)} s  ${text}\n`)
await installPackages(say)
const node = contendersNode()
const server = await BenchServer.start(18)
const results = new Results()
try {
  const sizes: Sizes = {
    ...(values.quick ? QUICK : FULL),
    ...(values.n ? { jobs: Number(values.n) } : {}),
    ...(values.rounds ? { rounds: Number(values.rounds) } : {}),
  }
  const descriptions = {} as Record<ContenderName, Description>
  const bench: Bench = { server, sizes, results, descriptions, say, start: (c, a) => new Remote(c, node, a) }
  for (const c of CONTENDERS) descriptions[c] = await withProcess(bench, c, (r) => r.call('describe', {}))
  await drainScenario(bench)
} finally {
  await server.stop()
}
for (const f of results.figures)
  console.log(f.scenario, f.contender, f.measure, f.jobs, f.median.toFixed(1), f.min.toFixed(1), f.max.toFixed(1))
