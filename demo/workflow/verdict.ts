/** The checks at the end, when no process is left that could change anything: by what the services and the tables have on record. */
import type { Finding } from '../findings.ts'
import { effectOf, type Service } from './checkout.ts'
import { ALL_ORDERS, LOST_ORDER, ORDERS, ordersOf } from './scale.ts'
import type { Services } from './services.ts'
import type { Shop } from './shop.ts'
import type { Told } from './story.ts'

export async function judge(shop: Shop, services: Services, told: Told, isUnprotected: boolean): Promise<Finding[]> {
  const orders = [...ordersOf(1), ...ordersOf(2)]
  const shipped = orders.filter((order) => order !== LOST_ORDER)
  const bookings = await shop.bookings()
  const once = (service: Service, of = orders) => of.filter((order) => services.times(service, order) === 1).length
  const twice = (service: Service) => orders.filter((order) => services.times(service, order) > 1).length
  const ofRuns = { isMoot: isUnprotected }
  return [
    { what: 'orders that have ended', found: await shop.ended(), expected: ALL_ORDERS },
    { what: 'orders charged once', found: once('charge'), expected: ALL_ORDERS },
    { what: 'orders charged twice or more', found: twice('charge'), expected: 0 },
    { what: 'orders reserved twice or more', found: twice('reserve'), expected: 0 },
    { what: 'orders booked once in the database', found: times(bookings, 1), expected: ALL_ORDERS },
    { what: 'receipts sent twice or more', found: twice('receipt'), expected: 0 },
    { what: 'orders shipped, their customers notified once', found: once('notify', shipped), expected: shipped.length },
    { what: 'orders never shipped, refunded once', found: once('refund'), expected: 1 },
    { what: 'the same, their goods released once, after the refund', found: released(services), expected: 1 },
    { what: 'orders both shipped and refunded', found: both(services, orders), expected: 0 },
    { what: 'runs of version 1', found: await shop.ended(1), expected: ORDERS[1], ...ofRuns },
    { what: 'runs of version 2', found: await shop.ended(2), expected: ORDERS[2], ...ofRuns },
    { what: 'fraud checks, all of version 2', found: once('check', ordersOf(2)), expected: ORDERS[2], ...ofRuns },
    { what: 'fraud checks of version 1', found: once('check', ordersOf(1)), expected: 0, ...ofRuns },
    { what: 'second signals, dropped', found: told.duplicates, expected: shipped.length, ...ofRuns },
    { what: 'signals after the end, refused', found: told.lateSignals, expected: 1, ...ofRuns },
  ]
}

function times(rows: ReadonlyMap<number, number>, count: number): number {
  return [...rows.values()].filter((each) => each === count).length
}

function released({ calls }: Services): number {
  const at = (service: Service) => calls.findIndex(({ effect }) => effect === effectOf(service, LOST_ORDER))
  const releases = calls.filter(({ effect, happened }) => happened && effect.startsWith('release/')).length
  return at('refund') >= 0 && at('refund') < at('release') ? releases : 0
}

function both(services: Services, orders: readonly number[]): number {
  return orders.filter((order) => services.times('notify', order) > 0 && services.times('refund', order) > 0).length
}
