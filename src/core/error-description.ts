/** Describes a thrown value as a plain object of bounded size. */
import { types } from 'node:util'
import { encodeRepaired } from './json-encoder.ts'
import { isObject, nameOf, read } from './reading.ts'
import { safeText } from './safe-text.ts'

/** The value of the `error` column. Strings only, all of them safe to store. */
export interface ErrorDescription {
  name: string
  message: string
  stack?: string
  code?: string
  cause?: ErrorDescription
  errors?: ErrorDescription[]
}

// An AggregateError of AggregateErrors is a tree: bound the number of descriptions, not only the depth.
const MAX_CAUSES_DEEP = 5
const MAX_ERRORS = 10
const MAX_DESCRIPTIONS = 16

/** Describes a thrown value for the `error` column, in bounded size. Never throws. */
export function describeError(thrown: unknown): ErrorDescription {
  try {
    return describe(thrown, [], 0)
  } catch {
    return { name: 'Error', message: '[unreadable]' }
  }
}

function describe(thrown: unknown, seen: unknown[], depth: number): ErrorDescription {
  const [messageChars, stackChars] = depth === 0 ? [8192, 16384] : [2048, 4096]
  const circular = isObject(thrown) && seen.includes(thrown)
  seen.push(thrown)
  const message = isObject(thrown) ? read(thrown, 'message') : undefined
  if (!isObject(thrown) || (typeof message !== 'string' && !types.isNativeError(thrown))) {
    const text = isObject(thrown) ? outline(thrown) : thrown
    return { name: 'NonError', message: safeText(text, messageChars) }
  }
  if (circular) return { name: nameOf(thrown), message: '[circular]' }

  const description: ErrorDescription = {
    name: nameOf(thrown),
    message: safeText(message ?? '[unreadable]', messageChars),
  }
  const stack = read(thrown, 'stack')
  if (typeof stack === 'string') description.stack = safeText(stack, stackChars)
  const code = read(thrown, 'code')
  if (typeof code === 'string' || typeof code === 'number') description.code = safeText(code, 200)

  const room = () => depth < MAX_CAUSES_DEEP && seen.length < MAX_DESCRIPTIONS
  const cause = read(thrown, 'cause')
  if (cause !== undefined && cause !== null && room()) description.cause = describe(cause, seen, depth + 1)
  const errors = read(thrown, 'errors')
  const length = isObject(errors) ? read(errors, 'length') : undefined
  if (isObject(errors) && typeof length === 'number') {
    description.errors = []
    for (let i = 0; i < Math.min(length, MAX_ERRORS) && room(); i++) {
      description.errors.push(describe(read(errors, i), seen, depth + 1))
    }
  }
  return description
}

/** Nested errors by name only: a full description could follow a cycle. */
function outline(thrown: object): string {
  return encodeRepaired(thrown, (error) => `[${nameOf(error)}]`, { bytes: 4096 })
}
