/** One engine in a process of its own: `child.ts <engine> <url>`. Takes numbers of runs over IPC, and answers what each took. */
import type { Engine } from './contender.ts'

export const AT_A_TIME = 100

export interface Took {
  readonly seconds: number
  readonly nodeMicros: number
}

const [name, url] = process.argv.slice(2)
const module: Record<string, Engine> = await import(`./${name}.ts`)
const engine = module[name!]!
const opened = await engine.open(url!, AT_A_TIME)
process.on('message', async (runs: number) => {
  const before = process.cpuUsage()
  const began = performance.now()
  await opened.run(runs)
  const { user, system } = process.cpuUsage(before)
  const took: Took = { seconds: (performance.now() - began) / 1_000, nodeMicros: user + system }
  process.send!(took)
})
process.once('disconnect', async () => {
  await opened.close()
  process.exit(0)
})
process.send!({ version: engine.version, why: engine.why })
