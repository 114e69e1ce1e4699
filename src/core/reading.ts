/** Reads of values whose getters or traps may throw. */
import { safeText } from './safe-text.ts'

export function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

export function read(holder: object, key: string | number): unknown {
  try {
    return Reflect.get(holder, key)
  } catch {
    return undefined
  }
}

/** Most error classes never set `name`; the name of the class is then more specific. */
export function nameOf(error: object): string {
  const name = read(error, 'name')
  return typeof name === 'string' && name !== '' && name !== 'Error' ? safeText(name, 200) : className(error, 'Error')
}

export function className(value: object, otherwise: string): string {
  const constructedBy = read(value, 'constructor')
  const name = isObject(constructedBy) ? read(constructedBy, 'name') : undefined
  return typeof name === 'string' && name !== '' ? safeText(name, 200) : otherwise
}
