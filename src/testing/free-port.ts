import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that systems use for outgoing connections: a server that restarts must find its port free again. */
const [FROM, TO] = [15_000, 32_000]

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FROM, TO)
    const probe = createServer().listen(port, '127.0.0.1')
    try {
      await once(probe, 'listening')
    } catch (error) {
      // Another process has it, or the system reserves it.
      if (!['EADDRINUSE', 'EACCES'].includes((error as NodeJS.ErrnoException).code!)) throw error
      continue
    }
    await once(probe.close(), 'close')
    return port
  }
}
