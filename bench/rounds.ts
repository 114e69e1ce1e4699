/** Round by round, so that noise of the machine hits all. */
import type { Bench } from './bench.ts'

/** Each round starts with another contender. Some may take part in the first rounds only. */
export async function interleaved<Contender extends string, Result>(
  bench: Bench,
  title: string,
  contenders: readonly Contender[],
  run: (contender: Contender) => Promise<{ result: Result; said: string }>,
  rounds: (contender: Contender) => number = () => bench.sizes.rounds,
): Promise<Map<Contender, Result[]>> {
  const results = new Map<Contender, Result[]>(contenders.map((contender) => [contender, []]))
  const most = Math.max(0, ...contenders.map(rounds))
  for (let round = 0; round < most; round++) {
    for (let at = 0; at < contenders.length; at++) {
      const contender = contenders[(at + round) % contenders.length]!
      if (round >= rounds(contender)) continue
      const { result, said } = await run(contender)
      results.get(contender)!.push(result)
      bench.say(`${title}, round ${round + 1}: ${contender} ${said}`)
    }
  }
  return results
}

/** With a burden and without, one right after the other, every second pair the other way round. */
export async function pairs(
  bench: Bench,
  title: string,
  count: number,
  run: (burdened: boolean) => Promise<number | null>,
): Promise<(number | null)[]> {
  const ratios: (number | null)[] = []
  for (let pair = 0; pair < count; pair++) {
    const cost = new Map<boolean, number | null>()
    for (const burdened of pair % 2 === 0 ? [false, true] : [true, false]) cost.set(burdened, await run(burdened))
    const [calm, heavy] = [cost.get(false) ?? null, cost.get(true) ?? null]
    ratios.push(calm === null || heavy === null ? null : heavy / calm)
    bench.say(`${title}, pair ${pair + 1}: ${calm?.toFixed(1) ?? '?'} and ${heavy?.toFixed(1) ?? '?'} µs a job`)
  }
  return ratios
}
