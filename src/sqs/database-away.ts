import { isOutage, refusesAll } from '../db/outage.ts'

/**
 * A query of ours could not be sent or answered, or none would be: the queue waits, since its messages would all wear out.
 * Of an error in a handler nobody knows whose socket, or whose table, it is about.
 */
export class DatabaseAway extends Error {
  override readonly name = 'DatabaseAway'
}

/** Runs a query of ours. */
export async function ask<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await query()
  } catch (error) {
    throw isOutage(error) || refusesAll(error) ? new DatabaseAway('the database is away', { cause: error }) : error
  }
}
