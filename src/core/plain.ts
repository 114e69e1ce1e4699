/** Whether this is a plain object, so that nothing is lost when it becomes JSON. */
export function isPlain(value: object, isArray: boolean): boolean {
  const prototype = Object.getPrototypeOf(value)
  if (!isArray) return prototype === null || isRootPrototype(prototype)
  return prototype === Array.prototype || isRootPrototype(Object.getPrototypeOf(prototype))
}

/** Object.prototype, also that of another realm (a vm context, a test runner). */
function isRootPrototype(prototype: object): boolean {
  if (prototype === Object.prototype) return true
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf')
}

/** A key that JSON leaves out. */
export function hasEnumerableSymbol(value: object): boolean {
  const symbols = Object.getOwnPropertySymbols(value)
  return symbols.length > 0 && symbols.some((symbol) => Object.prototype.propertyIsEnumerable.call(value, symbol))
}
