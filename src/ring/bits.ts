import { BUCKETS } from '../core/bucket.ts'

const BYTES = BUCKETS / 8

/** A set of buckets, a bit each, as `leasehold.claim()` reads it: get_bit(bytes, bucket), the lowest bit of a byte first. */
export class BucketSet {
  /** 128 bytes. They change with the set. */
  readonly bytes: Uint8Array

  /** The set that these bytes describe; they are copied. Without any: the empty set. */
  constructor(bytes: Uint8Array = new Uint8Array(BYTES)) {
    if (bytes.length !== BYTES) throw new RangeError(`A set of buckets has ${BYTES} bytes, not ${bytes.length}.`)
    this.bytes = Uint8Array.from(bytes)
  }

  static all(): BucketSet {
    return new BucketSet(new Uint8Array(BYTES).fill(0xff))
  }

  static ownedBy(map: Uint16Array, seat: number): BucketSet {
    const owned = new BucketSet()
    for (const [bucket, owner] of map.entries()) if (owner === seat) owned.add(bucket)
    return owned
  }

  has(bucket: number): boolean {
    return (this.bytes[byteOf(bucket)]! & bitOf(bucket)) !== 0
  }

  add(bucket: number): this {
    this.bytes[byteOf(bucket)]! |= bitOf(bucket)
    return this
  }

  /** Whether it was there. */
  delete(bucket: number): boolean {
    const had = this.has(bucket)
    this.bytes[byteOf(bucket)]! &= ~bitOf(bucket)
    return had
  }

  get size(): number {
    let size = 0
    for (let byte of this.bytes) for (; byte !== 0; byte &= byte - 1) size++
    return size
  }

  /** A new set: the buckets that are here and not in the other. */
  minus(other: BucketSet): BucketSet {
    return new BucketSet(this.bytes.map((byte, index) => byte & ~other.bytes[index]!))
  }

  /** A new set: the buckets that are in both. */
  and(other: BucketSet): BucketSet {
    return new BucketSet(this.bytes.map((byte, index) => byte & other.bytes[index]!))
  }

  /** A new set: the buckets that are in one of them. */
  or(other: BucketSet): BucketSet {
    return new BucketSet(this.bytes.map((byte, index) => byte | other.bytes[index]!))
  }

  equals(other: BucketSet): boolean {
    return this.bytes.every((byte, index) => byte === other.bytes[index])
  }

  /** In ascending order. */
  *[Symbol.iterator](): IterableIterator<number> {
    for (let bucket = 0; bucket < BUCKETS; bucket++) if (this.has(bucket)) yield bucket
  }
}

/** A bucket that does not exist is refused: a typed array would ignore it, and its jobs would wait for ever. */
function byteOf(bucket: number): number {
  if (!Number.isInteger(bucket) || bucket < 0 || bucket >= BUCKETS) {
    throw new RangeError(`A bucket is a whole number from 0 to ${BUCKETS - 1}, not ${bucket}.`)
  }
  return bucket >> 3
}

function bitOf(bucket: number): number {
  return 1 << (bucket & 7)
}
