import { InvalidOptionError } from '../core/errors.ts'

const SUCH = 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders'

export function checkQueueUrl(option: string, url: string): string {
  if (typeof url === 'string' && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return url
  const isArn = typeof url === 'string' && url.startsWith('arn:')
  const what = isArn ? "it is the queue's ARN; what is wanted is its URL" : 'it must be the URL of a queue'
  throw new InvalidOptionError(option, `${what}, such as ${SUCH}`)
}
