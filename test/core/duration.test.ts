import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  CENTURY_MS,
  type Duration,
  durationMs,
  durationText,
  intervalText,
  roughDuration,
} from '../../src/core/duration.ts'

test('a duration is a number of milliseconds, or a number with its unit', () => {
  const cases: [Duration, number][] = [
    [0, 0],
    [1500, 1500],
    [0.5, 0.5],
    ['0s', 0],
    ['250ms', 250],
    ['30s', 30_000],
    ['1.5s', 1_500],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    ['36500d', CENTURY_MS],
    ['0.001ms', 0.001],
  ]
  for (const [duration, ms] of cases) assert.equal(durationMs('x', duration), ms, String(duration))
})

test('any other value is refused, with the name of the option', () => {
  const bad: unknown[] = [
    ...[
      '',
      '1',
      '30',
      's',
      '30 s',
      ' 30s',
      '30s ',
      '-1s',
      '+1s',
      '1e3ms',
      '.5s',
      '1.s',
      '30S',
      '5min',
      '1w',
      '1s\n',
      '0x1s',
    ],
    ...['1s2s', '١s', 'Infinitys', 'NaNms', '36501d', `${'9'.repeat(400)}ms`],
    ...[-1, Number.NaN, Number.POSITIVE_INFINITY, CENTURY_MS + 1, 10n],
    ...[undefined, null, true, {}, [], ['1', 's'], new Date(), Symbol('1s'), () => '1s'],
  ]
  for (const value of bad) {
    const call = () => durationMs('worker.lease', value as Duration)
    assert.throws(call, { code: 'INVALID_OPTION', option: 'worker.lease' }, String(value))
  }
})

test('a value that cannot be printed is refused like any other', () => {
  const odd = { toString: () => { throw new RangeError('no') } } // biome-ignore format: kept on one line
  assert.throws(() => durationMs('x', odd as unknown as Duration), { code: 'INVALID_OPTION' })
  assert.throws(() => durationMs('x', ['1s'] as unknown as Duration), { code: 'INVALID_OPTION' })
})

test('a minimum duration is enforced and named in the error', () => {
  assert.equal(durationMs('x', '1s', 1_000), 1_000)
  assert.throws(() => durationMs('x', '999ms', 1_000), /at least 1000 ms/)
})

test('the types know the units', () => {
  const fine: Duration[] = ['1s', '1.5h', 10]
  // @ts-expect-error: a bare number in a string has no unit
  const bare: Duration = '30'
  // @ts-expect-error: there are no weeks
  const weeks: Duration = '1w'
  assert.deepEqual([fine.length, bare, weeks], [3, '30', '1w'])
})

test('a duration is written with the largest unit that divides it', () => {
  const cases: [number, Duration][] = [
    [0, '0ms'],
    [0.5, '0.5ms'],
    [1_500, '1500ms'],
    [90_000, '90s'],
    [300_000, '5m'],
    [129_600_000, '36h'],
    [604_800_000, '7d'],
  ]
  for (const [ms, text] of cases) {
    assert.equal(durationText(ms), text)
    assert.equal(durationMs('x', text), ms)
  }
})

test('an interval is written so that no part of it overflows in an older Postgres', () => {
  assert.equal(intervalText(0.0001), '0 hours 0 seconds')
  assert.equal(intervalText(90_061_005), '25 hours 61.005 seconds')
  assert.equal(intervalText(CENTURY_MS), '876000 hours 0 seconds')
})

test('a duration for people has at most two units, and is never rounded up', () => {
  const shown = [-5, 0, 999, 1_000, 59_999, 61_000, 3_600_000, 7_500_000, 270_000_000].map(roughDuration)
  assert.deepEqual(shown, ['0ms', '0ms', '999ms', '1s', '59s', '1m 1s', '1h', '2h 5m', '3d 3h'])
})
