/** `leasehold/prisma`: the interactive transaction of Prisma as a Tx. */
import type { Tx, TxFunction } from '../db/tx.ts'
import { hasEnded, noTransaction, onePerHandle } from './handle.ts'

/** The part of Prisma.TransactionClient that is used here. The PrismaClient itself has $connect. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>
  readonly $connect?: never
}

/** `prisma.$transaction(async (tx) => leasehold.enqueue(kind, input, { tx: fromPrisma(tx) }))` */
export function fromPrisma(tx: PrismaTransaction): Tx {
  if (typeof tx?.$queryRawUnsafe !== 'function' || tx.$connect !== undefined) {
    throw noTransaction('the tx that prisma.$transaction(async (tx) => …) passes')
  }
  return adapt(tx)
}

const adapt = onePerHandle((tx: PrismaTransaction): TxFunction => {
  return async (text, values) => {
    try {
      return (await tx.$queryRawUnsafe(text, ...(values as never[]))) as Readonly<Record<string, unknown>>[]
    } catch (error) {
      throw explained(error)
    }
  }
})

interface PrismaError {
  readonly code?: string
  readonly meta?: { readonly driverAdapterError?: { readonly cause?: { readonly originalCode?: string } } }
}

/** Prisma has codes of its own, and keeps that of Postgres inside. */
function explained(error: unknown): unknown {
  const { code, meta } = (error ?? {}) as PrismaError
  if (code === 'P2028') return hasEnded(error)
  const sqlState = code === 'P2034' ? '40001' : meta?.driverAdapterError?.cause?.originalCode
  if (sqlState === undefined) return error
  return Object.assign(new Error((error as Error).message, { cause: error }), { code: sqlState })
}
