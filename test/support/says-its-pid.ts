/** A process that prints its pid, and then waits to be ended. */
process.send?.(process.pid)
process.on('message', () => {})
