// The words in braces become quoted names; see fenced-table.ts. Nothing here needs our schema: the table may be in another
// database.

// The fenced write: an older generation matches no row. It waits for a locked row and then tests it again.
//   $1 id  $2 generation  $3 … the columns
export const FENCED_WRITE = `-- fenced.write
update {table} set {assignments}{generation} = $2
where {id} = $1 and ({generation} is null or {generation} <= $2)`

// Why it matched none. A separate statement: the snapshot of the one that waited is older than the change it waited for.
//   $1 id  $2 generation
export const FENCED_FIND = `-- fenced.find
select coalesce({generation} > $2, false) from {table} where {id} = $1`

export const FENCED_COLUMN = `-- fenced.column
alter table {table} add column if not exists {generation} bigint`
