// Stops a process as a long garbage collection or a suspended machine does: it does nothing, and does not notice.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

// Until the end of this shell's input, which comes on our command or when we exit: a stopped process cannot notice our exit
// by itself, and would outlive us.
const PAUSE = `trap '' INT TERM HUP; kill -STOP "$1"; echo stopped; read -r _; kill -CONT "$1"`

/** Resolves when it is stopped, with the function that resumes it. Not on Windows. */
export async function pauseProcess(pid: number): Promise<() => Promise<void>> {
  const shell = spawn('/bin/sh', ['-c', PAUSE, 'pause', String(pid)], { stdio: ['pipe', 'pipe', 'ignore'] })
  const closed = once(shell, 'close')
  await Promise.race([once(shell.stdout, 'data'), closed])
  return async () => {
    shell.stdin.end()
    await closed
  }
}
