/** What an answer of SQS means for what was asked: whether it is worth asking again. */

const THROTTLING = /Throttl|SlowDown|TooManyRequests|RequestLimitExceeded|OverLimit/i
/** Of credentials or the clock, which the SDK fetches or sets anew. */
const EXPIRED = /Expired|TooSkewed/
const ABOUT_ONE_ENTRY = /(BatchRequestTooLong|InvalidMessageContents|InvalidParameterValue|InvalidAttributeValue)$/

interface SdkError {
  readonly name?: unknown
  readonly $retryable?: unknown
  readonly $metadata?: { readonly httpStatusCode?: number }
}

export function isThrottling(code: unknown): boolean {
  return THROTTLING.test(String(code ?? ''))
}

/** Not a refusal: SQS was not reached, is in trouble or busy, or has done what was asked and its reply was lost. */
export function isTransient(error: unknown): boolean {
  const { name, $retryable, $metadata } = (error ?? {}) as SdkError
  const status = $metadata?.httpStatusCode
  if (status === undefined || status < 400 || status >= 500) return true
  if (status === 408 || status === 429 || $retryable !== undefined) return true
  return isThrottling(name) || EXPIRED.test(String(name))
}

/** No answer, or one of a server in trouble: what was asked may have been done all the same. */
export function mayHaveBeenDone(error: unknown): boolean {
  const { name, $metadata } = (error ?? {}) as SdkError
  const status = $metadata?.httpStatusCode
  return (status === undefined || status >= 500) && !isThrottling(name)
}

/** Whether a request of several was refused for something that may be wrong with one of them only. */
export function maybeAboutOneEntry(error: unknown): boolean {
  return ABOUT_ONE_ENTRY.test(String((error as SdkError)?.name ?? ''))
}
