/** `leasehold/typeorm`: the transaction of TypeORM as a Tx. */
import type { Tx } from '../db/tx.ts'
import { noTransaction, onePerHandle, throughPgClient } from './handle.ts'

/** The part of TypeORM's EntityManager that is used here. */
export interface TypeOrmManager {
  readonly queryRunner?: TypeOrmQueryRunner | undefined
}

interface TypeOrmQueryRunner {
  readonly isReleased: boolean
  readonly isTransactionActive: boolean
  connect(): Promise<unknown>
}

/** `dataSource.transaction(async (manager) => leasehold.enqueue(kind, input, { tx: fromTypeOrm(manager) }))` */
export function fromTypeOrm(manager: TypeOrmManager): Tx {
  return adapt(openRunner(manager))
}

function openRunner(manager: TypeOrmManager): TypeOrmQueryRunner {
  const runner = manager?.queryRunner
  if (runner === undefined || runner.isReleased || !runner.isTransactionActive) {
    throw noTransaction(
      'the manager that dataSource.transaction(async (manager) => …) passes, or queryRunner.manager after startTransaction()',
    )
  }
  return runner
}

const adapt = onePerHandle((queryRunner: TypeOrmQueryRunner) =>
  throughPgClient(() => openRunner({ queryRunner }).connect()),
)
