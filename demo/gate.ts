/** Opens after so many knocks: it depends on the other processes, not on time. */
export class Gate {
  readonly opened: Promise<void>
  #missing: number
  #open: () => void = () => {}

  constructor(knocks = 1) {
    this.#missing = knocks
    this.opened = new Promise((resolve) => {
      this.#open = resolve
    })
  }

  knock(): void {
    if (--this.#missing === 0) this.#open()
  }
}
