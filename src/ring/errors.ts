import { LeaseholdError } from '../core/errors.ts'

/** A worker asked for a seat on the ring that another worker has. It goes on asking, and does what belongs to no seat. */
export class SeatTakenError extends LeaseholdError {
  readonly code = 'SEAT_TAKEN'
  override readonly name = 'SeatTakenError'
  /** Undefined: it asked for any, and all 1024 are taken. */
  readonly seat: number | undefined

  constructor(seat: number | undefined) {
    const what = 'is taken by another worker; give each worker a `seat` of its own, or leave the option out'
    super(
      seat === undefined ? 'all 1024 seats are taken; run fewer workers of queues on the ring' : `seat ${seat} ${what}`,
    )
    this.seat = seat
  }
}
