// The words in braces become quoted names; see fenced-table.ts. Nothing here needs our schema: the table may be in another
// database.

// The write that fences: an older generation matches no row. A row that is locked is waited for and then tested again.
//   $1 id  $2 generation  $3 … the columns
export const FENCED_WRITE = `-- fenced.write
with written as (
  update {table} set {assignments}{generation} = $2
  where {id} = $1 and ({generation} is null or {generation} <= $2)
  returning 1
)
select (select count(*) from written), (select count(*) from {table} where {id} = $1)`

export const FENCED_COLUMN = `-- fenced.column
alter table {table} add column {generation} bigint`
