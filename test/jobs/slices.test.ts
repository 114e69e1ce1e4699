// How a look that takes too long is cut. No time passes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Slices } from '../../src/jobs/scan-slices.ts'

const widthOf = (slice: { readonly from: number; readonly to: number } | undefined) => slice!.to - slice!.from

test('a look that took seconds is cut into slices, with or without a reply, and a quick one is not', () => {
  const [quick, slow, unanswered, failedAtOnce] = [new Slices(), new Slices(), new Slices(), new Slices()]
  quick.took(3_000)
  slow.took(3_001)
  unanswered.failed(3_001)
  failedAtOnce.failed(3_000)
  assert.deepEqual([quick.next, failedAtOnce.next], [undefined, undefined])
  for (const { next } of [slow, unanswered]) assert.equal(next?.from, 0)
})

test('after a slow slice the next are narrower, after a cheap one wider, and each begins where the last one ended', () => {
  const slices = new Slices()
  slices.took(10_000)
  const first = slices.next
  slices.seen(3_001, 0, false)
  const second = slices.next
  assert.deepEqual([second?.from, widthOf(second)], [first?.to, widthOf(first) / 2])
  slices.seen(2_000, 0, false)
  const third = slices.next
  assert.deepEqual([third?.from, widthOf(third)], [second?.to, widthOf(second)])
  slices.seen(999, 0, false)
  const fourth = slices.next
  assert.deepEqual([fourth?.from, widthOf(fourth)], [third?.to, 2 * widthOf(third)])
})

test('a slice with more jobs than were claimed is repeated', () => {
  const slices = new Slices()
  slices.took(10_000)
  const first = slices.next
  slices.seen(2_000, 10, true)
  assert.deepEqual(slices.next, first)
  slices.seen(2_000, 0, false)
  assert.equal(slices.next?.from, first?.to)
})
