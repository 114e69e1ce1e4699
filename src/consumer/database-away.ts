import { isOutage, refusesAll } from '../db/outage.ts'

/**
 * Our own query could not be sent or answered, or every query would fail: the consumer pauses, because its messages would
 * use up their deliveries. An error from a handler does not count: its socket or table may be another one.
 */
export class DatabaseAway extends Error {
  override readonly name = 'DatabaseAway'
}

/** Runs one of our own queries. */
export async function ask<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await query()
  } catch (error) {
    throw isOutage(error) || refusesAll(error) ? new DatabaseAway('the database is away', { cause: error }) : error
  }
}
