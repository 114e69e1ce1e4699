export const BUCKETS = 1024

/** FNV-1a, 32 bit, over the key's UTF-8 bytes, modulo 1024. The same function in SQL: leasehold.bucket(text). */
export function bucketOf(partitionKey: string): number {
  let hash = 2166136261
  for (let at = 0; at < partitionKey.length; at++) {
    const code = partitionKey.charCodeAt(at)
    if (code > 127) return bucketOfBytes(partitionKey)
    hash = Math.imul(hash ^ code, 16777619)
  }
  return (hash >>> 0) % BUCKETS
}

function bucketOfBytes(partitionKey: string): number {
  let hash = 2166136261
  for (const byte of Buffer.from(partitionKey, 'utf8')) hash = Math.imul(hash ^ byte, 16777619)
  return (hash >>> 0) % BUCKETS
}

/** Work without a key gets a random bucket. */
export function anyBucket(): number {
  return Math.floor(Math.random() * BUCKETS)
}
