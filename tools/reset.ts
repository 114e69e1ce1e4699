import type { Socket } from 'node:net'

/**
 * Resets the connection, as a network that has dropped it. A socket that is half closed is only closed: Node answers its
 * reset with EINVAL, never closes it, and can then never exit (seen in 20).
 */
export function resetSocket(socket: Socket): void {
  const isSayingGoodbye = socket.writableEnded && !socket.writableFinished
  if (socket.connecting || isSayingGoodbye) socket.destroy()
  else socket.resetAndDestroy()
}
