/** What an SQS error means: whether to retry the request. */

const THROTTLING = /Throttl|SlowDown|TooManyRequests|RequestLimitExceeded|OverLimit/i
/** Of credentials or the clock, which the SDK renews. */
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

/** Not a refusal: SQS was unreachable, failing or busy, or carried out the request and its reply was lost. */
export function isTransient(error: unknown): boolean {
  const { name, $retryable, $metadata } = (error ?? {}) as SdkError
  const status = $metadata?.httpStatusCode
  if (status === undefined || status < 400 || status >= 500) return true
  if (status === 408 || status === 429 || $retryable !== undefined) return true
  return isThrottling(name) || EXPIRED.test(String(name))
}

/** No reply, or one of a failing server: the request may have been carried out. */
export function mayHaveBeenDone(error: unknown): boolean {
  const { name, $metadata } = (error ?? {}) as SdkError
  const status = $metadata?.httpStatusCode
  return (status === undefined || status >= 500) && !isThrottling(name)
}

/** Whether a batch was refused for a reason that may concern only one of its entries. */
export function maybeAboutOneEntry(error: unknown): boolean {
  return ABOUT_ONE_ENTRY.test(String((error as SdkError)?.name ?? ''))
}
