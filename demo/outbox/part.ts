/** The common part of this demo's processes: they get their places, and stand still where they are told to. */
import { once } from 'node:events'
import type { Command, FromChild, Places } from './messages.ts'

export class Part {
  readonly places: Places
  #holds = false

  private constructor(places: Places, onCommand: (command: Command) => void) {
    this.places = places
    process.on('message', (command: Command) => {
      if (command.type === 'hold') this.#holds = true
      else onCommand(command)
    })
  }

  static async begin(onCommand: (command: Command) => void = () => {}): Promise<Part> {
    // The demo has ended, or we have disconnected ourselves: either way there is nothing left to do.
    process.on('disconnect', () => process.exit())
    // Ctrl-C is for the demo, which then ends us.
    process.on('SIGINT', () => {})
    const [command] = (await once(process, 'message')) as [Extract<Command, { type: 'begin' }>]
    return new Part(command.places, onCommand)
  }

  tell(message: FromChild): void {
    if (process.connected) process.send?.(message)
  }

  /** Returns at once, unless the demo wants us dead here. */
  async checkpoint(at: string, items = 1): Promise<void> {
    if (!this.#holds) return
    this.tell({ type: 'holding', at, items })
    await new Promise(() => {})
  }
}
