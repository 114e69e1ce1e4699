import { isOutage } from '../db/outage.ts'

/** A query of ours could not be sent or answered. Of an error in a handler nobody knows whose socket it is about. */
export class DatabaseAway extends Error {
  override readonly name = 'DatabaseAway'
}

/** Runs a query of ours. */
export async function ask<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await query()
  } catch (error) {
    throw isOutage(error) ? new DatabaseAway('the database is away', { cause: error }) : error
  }
}
