/** Bugs that can be planted, to see that the checker notices. */
export interface Plant {
  readonly what: string
}
export const PLANTS: Readonly<Record<string, Plant>> = {}
export function isPlant(name: string): boolean {
  return Object.hasOwn(PLANTS, name)
}
export async function tryPlants(_names: readonly string[], _seed: number, _signal: AbortSignal): Promise<number> {
  return 0
}
