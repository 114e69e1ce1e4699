/** Turns any value into text that Postgres can store. */

const TRUNCATED = '… (truncated)'

/**
 * Any value as text that Postgres can store, at most `maxChars` UTF-16 units long. Never throws.
 * NUL and lone surrogates become U+FFFD: one character for one, so nothing grows, and unlike a written-out `\u0000`
 * it cannot be mistaken for text that was there.
 */
export function safeText(value: unknown, maxChars = 8192): string {
  let text: string
  try {
    // Printing millions of digits takes seconds, and a worker that blocks so long cannot renew its leases.
    text = typeof value === 'bigint' && BigInt.asIntN(4096, value) !== value ? '[huge BigInt]' : String(value)
  } catch {
    text = '[unreadable]'
  }
  if (text.length <= maxChars) return replaceUnstorable(text)
  // Cut first, replace afterwards, so that a huge text costs no more than a long one.
  let end = Math.max(0, maxChars - TRUNCATED.length)
  if (/^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(end - 1, end + 1))) end--
  return (replaceUnstorable(text.slice(0, end)) + TRUNCATED).slice(0, maxChars)
}

// With the u flag, \p{Cs} sees whole code points: it matches a surrogate only when it is alone.
export const LONE_SURROGATE = /\p{Cs}/u

export function replaceUnstorable(text: string): string {
  if (!NEEDS_CARE.test(text)) return text
  return text.replaceAll('\0', '\ufffd').replace(/\p{Cs}/gu, '\ufffd')
}

// A negated class, so that one scan finds quotes, backslashes, control characters and surrogates.
export const NEEDS_CARE = /[^ !#-[\]-\ud7ff\ue000-\uffff]/
