/** What stops when the process is told to. */
export interface Stoppable {
  readonly isStopping: () => boolean
  readonly stop: (options: { readonly grace?: 0 }) => Promise<unknown>
}

/** The first signal lets handlers finish, the second does not, a third is Node's own business. Answers how to unhook. */
export function stopOnSignals(signals: readonly NodeJS.Signals[], { isStopping, stop }: Stoppable): () => void {
  const unhook = () => {
    for (const signal of signals) process.off(signal, onSignal)
  }
  const onSignal = () => {
    if (isStopping()) unhook()
    void stop(isStopping() ? { grace: 0 } : {})
  }
  for (const signal of signals) process.on(signal, onSignal)
  return unhook
}
