// Stops a process as a long garbage collection or a suspended machine does: it does nothing, and does not know.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

// Until the end of this shell's input, which comes when we say so or when we are gone: a process that is stopped cannot
// notice the latter by itself, and would outlive us.
const PAUSE = `trap '' INT TERM HUP; kill -STOP "$1"; echo stopped; read -r _; kill -CONT "$1"`

/** Resolves when it is stopped, with what lets it go on. Not on Windows. */
export async function pauseProcess(pid: number): Promise<() => Promise<void>> {
  const shell = spawn('/bin/sh', ['-c', PAUSE, 'pause', String(pid)], { stdio: ['pipe', 'pipe', 'ignore'] })
  const closed = once(shell, 'close')
  await Promise.race([once(shell.stdout, 'data'), closed])
  return async () => {
    shell.stdin.end()
    await closed
  }
}
