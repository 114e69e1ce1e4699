/** A process that says who it is, and then waits to be ended. */
process.send?.(process.pid)
process.on('message', () => {})
