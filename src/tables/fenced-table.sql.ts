// The words in braces become quoted names; see fenced-table.ts. Nothing here needs our schema: the table may be in another
// database.

// The write that fences: an older generation matches no row. A row that is locked is waited for and then tested again.
//   $1 id  $2 generation  $3 … the columns
export const FENCED_WRITE = `-- fenced.write
update {table} set {assignments}{generation} = $2
where {id} = $1 and ({generation} is null or {generation} <= $2)`

// Why it matched none. A statement of its own: the snapshot of the one that waited is older than what it waited for.
//   $1 id  $2 generation
export const FENCED_FIND = `-- fenced.find
select coalesce({generation} > $2, false) from {table} where {id} = $1`

export const FENCED_COLUMN = `-- fenced.column
alter table {table} add column {generation} bigint`
