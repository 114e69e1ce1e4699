// Inside the caller's transaction. A savepoint within another of the same name hides that one until it is released.
export const SAVEPOINT = `-- tx.savepoint
savepoint leasehold`

export const RELEASE_SAVEPOINT = `-- tx.release_savepoint
release savepoint leasehold`

export const ROLL_BACK_TO_SAVEPOINT = `-- tx.roll_back_to_savepoint
rollback to savepoint leasehold`
