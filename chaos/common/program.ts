/** The part that every program of a chaos run begins with. */
import { noteStalls, type Witness } from './witness.ts'

export function nameOf(error: unknown): string {
  const { name, code } = (error ?? {}) as { name?: string; code?: string }
  return code ?? name ?? String(error)
}

export function print(event: string): void {
  process.stdout.write(`${JSON.stringify({ event })}\n`)
}

/** `details`: of the lines `ready` and `calm`. */
export function begin(witness: Witness, details: () => object = () => ({})): void {
  noteStalls(witness)
  process.on('message', () => witness.write('calm', { ...details() }))
  // It ends with the process that started it, however that ends.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel!.unref()
  process.on('uncaughtException', (error) => {
    witness.write('uncaught', { message: String(error?.stack ?? error).slice(0, 2_000) })
    console.error(error)
    process.exit(1)
  })
  witness.write('ready', { pid: process.pid, ...details() })
}
