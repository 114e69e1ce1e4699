import type { Socket } from 'node:net'

/**
 * Resets the connection, as a network does that has forgotten it. A socket that is just saying goodbye is only closed: asked
 * to reset it, Node answers EINVAL, never closes it, and can then never end (seen in 20).
 */
export function resetSocket(socket: Socket): void {
  const isSayingGoodbye = socket.writableEnded && !socket.writableFinished
  if (socket.connecting || isSayingGoodbye) socket.destroy()
  else socket.resetAndDestroy()
}
