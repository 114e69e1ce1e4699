import assert from 'node:assert/strict'
import { test } from 'node:test'
import { table } from '../../src/cli/table.ts'
import { cut, widthOf } from '../../src/cli/terminal.ts'

const plain = (_style: unknown, text: string) => text

test('columns stay aligned under names in any script', () => {
  const names = ['mail', '受領書', 'é\u0301tat', '🚚 orders']
  const columns = [
    { title: 'queue', cell: (name: string) => name },
    { title: 'ready', align: 'right' as const, cell: () => '1' },
  ]
  const lines = table(names, columns, plain).trimEnd().split('\n')
  assert.deepEqual([...new Set(lines.map(widthOf))], [9 + 2 + 5])
})

test('text is cut to the columns it may take, between characters', () => {
  assert.equal(cut('受領書', 6), '受領書')
  assert.equal(cut('受領書', 5), '受領…')
  assert.equal(cut('受領書', 4), '受…')
  assert.equal(cut('orders', 6), 'orders')
  assert.equal(cut('orders', 5), 'orde…')
  assert.equal(cut('🚚🚚', 3), '🚚…')
  assert.equal(cut('abc', 0), '…')
})
