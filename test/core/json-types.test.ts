// What compiles: an input that JSON holds. Each line that must not has an expectation of the error, which tsc checks.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { handle, type JobSnapshot, kind, type Leasehold } from '../../src/index.ts'

interface Address {
  readonly street: string
  readonly flat?: number
}
interface Tree {
  readonly name: string
  readonly children: readonly Tree[]
}
class Money {
  readonly cents = 1
  plus(): Money {
    return this
  }
}

test('interfaces, optional properties, unions and recursive types are inputs', () => {
  const kinds = [
    kind<{ to: Address; tags: readonly string[]; note?: string | null }>('mail'),
    kind<Tree>('tree'),
    kind<'a' | 1 | null>('scalar'),
    kind<[number, string]>('pair'),
    kind<Record<string, number>>('counts'),
    kind<unknown>('anything'),
    kind('anything else'),
  ]
  assert.equal(kinds.length, 7)
})

test('a Date, a Map, a class, a BigInt and a function are no inputs', () => {
  // @ts-expect-error a Date comes back as a string
  kind<{ when: Date }>('a')
  // @ts-expect-error a Map has no JSON form
  kind<{ by: Map<string, number> }>('b')
  // @ts-expect-error a class loses its methods
  kind<{ price: Money }>('c')
  // @ts-expect-error nor has a BigInt
  kind<{ id: bigint }>('d')
  // @ts-expect-error nor a function
  kind<{ call: () => void }>('e')
  // @ts-expect-error nor anything below an array
  kind<readonly { at: Date }[]>('f')
})

test('of a schema only what goes in must be JSON', () => {
  const parsed = kind('parsed', { input: z.object({ at: z.string().transform((text) => new Date(text)) }) })
  handle(parsed, (job) => job.input.at.getTime())
  // @ts-expect-error its input is a Date
  kind('dated', { input: z.object({ at: z.date() }) })
  assert.equal(parsed.name, 'parsed')
})

test('a declared result is what handlers return, and what waitFor and get return', () => {
  const charge = kind<{ order: number }>('charge').returns<{ receipt: string }>()
  handle(charge, () => ({ receipt: 'r-1' }))
  handle(charge, async () => ({ receipt: 'r-1' }))
  // @ts-expect-error another shape
  handle(charge, () => ({ receipt: 1 }))
  // @ts-expect-error a Date is not JSON
  kind('x').returns<{ at: Date }>()
  const typed = async (lh: Leasehold) => {
    const { jobId } = await lh.enqueue(charge, { order: 1 })
    const finished: JobSnapshot<{ receipt: string }> = await lh.waitFor(jobId)
    const receipt: string | undefined = finished.result?.receipt
    const anything: unknown = (await lh.waitFor('12')).result
    return [receipt, anything, (await lh.get(jobId))?.result?.receipt]
  }
  assert.equal(typeof typed, 'function')
})
