/**
 * Bad weather, in real seconds: behaviour while something else fails. A bar that is missed is printed, not an
 * error.
 */
import { BenchServer } from '../server.ts'
import { type Bar, inWords } from './bar.ts'
import { herd } from './herd.ts'
import { keysWeather } from './keys.ts'
import { kinds } from './kinds.ts'
import { lockWeather } from './lock.ts'
import { outageWeather } from './outage.ts'
import { queues } from './queues.ts'

const WEATHER: Readonly<Record<string, (server: BenchServer) => Promise<Bar[]>>> = {
  queues,
  herd,
  kinds,
  outage: outageWeather,
  keys: keysWeather,
  lock: lockWeather,
}

export async function runWeather(json: boolean, say: (text: string) => void): Promise<void> {
  // A fleet of idle workers has more sessions than the default allows. More of them cost other measurements a tenth.
  const server = await BenchServer.start(18, { max_connections: '300' })
  const bars: Bar[] = []
  try {
    for (const [name, measure] of Object.entries(WEATHER)) {
      say(`weather: ${name}`)
      bars.push(...(await measure(server)))
    }
  } finally {
    await server.stop()
  }
  console.log(bars.map(inWords).join('\n'))
  if (json) console.log(JSON.stringify({ scenario: 'weather', postgres: server.version, bars }))
}
