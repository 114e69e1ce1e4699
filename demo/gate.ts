/** Opens when it has been knocked at so many times: who passes does so because of the others, not because of the time. */
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
