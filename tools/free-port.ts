import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below those that systems give to outgoing connections: a server that restarts on its port must find it free again. */
const [FROM, TO] = [15_000, 32_000]

/** A port of loopback that nobody had a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FROM, TO)
    const probe = createServer().listen(port, '127.0.0.1')
    try {
      await once(probe, 'listening')
    } catch (error) {
      // Somebody has it, or the system keeps it for itself.
      if (!['EADDRINUSE', 'EACCES'].includes((error as NodeJS.ErrnoException).code!)) throw error
      continue
    }
    await once(probe.close(), 'close')
    return port
  }
}
