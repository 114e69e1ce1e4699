import { InvalidOptionError } from '../core/errors.ts'

export type RowId = string | number | bigint

export function checkRowId(id: RowId): RowId {
  if (typeof id === 'bigint' || (typeof id === 'string' && id !== '') || Number.isSafeInteger(id)) return id
  throw new InvalidOptionError('id', 'it must be a string, a whole number or a bigint')
}
