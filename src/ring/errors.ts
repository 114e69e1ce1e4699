import { LeaseholdError } from '../core/errors.ts'

/** A worker asked for a seat on the ring that another worker has. It goes on asking, and does what belongs to no seat. */
export class SeatTakenError extends LeaseholdError {
  readonly code = 'SEAT_TAKEN'
  override readonly name = 'SeatTakenError'
  readonly seat: number

  constructor(seat: number) {
    super(`seat ${seat} is taken by another worker; give each worker a \`seat\` of its own, or leave the option out`)
    this.seat = seat
  }
}
