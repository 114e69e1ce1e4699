// Statements on a user's table. The words in braces are filled in once: names, quoted, and statuses, as literals. A literal
// takes the type of its column, text or enum, and lets the planner see that a partial index fits. `{set}` is a list of the
// user's own columns with their parameters, each with a leading comma. Returned values are text, so that a plan survives a
// change of the column's type.

//   $1 id  $2 … the user's columns
export const TRANSITION = `-- row.transition
update {table} set {status} = {to}{set} where {id} = $1 and {status} = {from}`

// Returns the id as the database spells it, because keys are made of it.
//   $1 id  $2 token  $3 lease in ms
export const CLAIM = `-- row.claim
update {table} set {status} = {claimed}, {claim_token} = $2,
  {claim_expires_at} = statement_timestamp() + $3::float8 * interval '1 ms'
where {id} = $1 and {status} = {ready} returning {id}::text`

//   $1 id  $2 token  $3 lease in ms
export const RENEW = `-- row.renew
update {table} set {claim_expires_at} = statement_timestamp() + $3::float8 * interval '1 ms'
where {id} = $1 and {claim_token} = $2 and {status} = {claimed}`

// The token stays, so that a holder whose reply was lost can ask again.
//   $1 id  $2 token  $3 … the user's columns
export const COMMIT = `-- row.commit
update {table} set {status} = {done}{set} where {id} = $1 and {claim_token} = $2 and {status} = {claimed}`

// As if never claimed. sent_at moves into the future, so that recovery does not re-publish the row before `after`.
//   $1 id  $2 token  $3 not re-published before, in ms
export const RELEASE = `-- row.release
update {table} set {status} = {ready}, {sent_at} = statement_timestamp() + $3::float8 * interval '1 ms'
where {id} = $1 and {claim_token} = $2 and {status} = {claimed}`

// The attempt is counted here, on the current row, not on an earlier read. With no attempt left retry_at is null, and the
// caller learns it from the returned column.
//   $1 id  $2 error  $3 attempts at most  $4 first backoff in ms  $5 longest
export const FAIL = `-- row.fail
update {table} set {status} = {failed}, {last_error} = $2, {attempt_count} = {attempt_count} + 1,
  {retry_at} = case when {attempt_count} + 1 < $3::int then statement_timestamp()
    + least($5::float8, $4::float8 * 2 ^ least({attempt_count}, 60)) * (0.75 + 0.25 * random()) * interval '1 ms' end
where {id} = $1 and {status} = {ready} returning {retry_at} is null`

//   $1 … $5 as above  $6 token
export const FAIL_CLAIM = `-- row.fail_claim
update {table} set {status} = {failed}, {last_error} = $2, {attempt_count} = {attempt_count} + 1,
  {retry_at} = case when {attempt_count} + 1 < $3::int then statement_timestamp()
    + least($5::float8, $4::float8 * 2 ^ least({attempt_count}, 60)) * (0.75 + 0.25 * random()) * interval '1 ms' end
where {id} = $1 and {claim_token} = $6 and {status} = {claimed} returning {retry_at} is null`

//   $1 id
export const FIND = `-- row.find
select {status}::text from {table} where {id} = $1`

//   $1 id  $2 token
export const FIND_CLAIM = `-- row.find_claim
select {status}::text, coalesce({claim_token} = $2, false), {id}::text, {retry_at} is null from {table} where {id} = $1`

// Rows whose claim expired. The row is tested again under its lock: a holder that has just renewed its claim keeps it. A row
// that another session is changing is left for the next run.
//   $1 attempts at most  $2 error  $3 limit
export const TAKE_BACK = `-- row.take_back
update {table} set {status} = {ready}, {claim_token} = null, {claim_expires_at} = null, {last_error} = $2,
  {attempt_count} = {attempt_count} + 1, {sent_at} = statement_timestamp()
where {id} = any (array(
  select {id} from {table}
  where {status} = {claimed} and {claim_expires_at} < statement_timestamp() and {attempt_count} + 1 < $1::int
  order by {claim_expires_at} limit $3 for update skip locked
)) and {status} = {claimed}
returning {id}::text`

// The same, with no attempt left: they stay in error for a person.
//   $1 attempts at most  $2 error  $3 limit
export const GIVE_UP = `-- row.give_up
update {table} set {status} = {failed}, {claim_token} = null, {claim_expires_at} = null, {last_error} = $2,
  {attempt_count} = {attempt_count} + 1, {retry_at} = null
where {id} = any (array(
  select {id} from {table}
  where {status} = {claimed} and {claim_expires_at} < statement_timestamp() and {attempt_count} + 1 >= $1::int
  order by {claim_expires_at} limit $3 for update skip locked
)) and {status} = {claimed}
returning {id}::text`

// Failed rows whose retry is due.
//   $1 limit
export const REDRIVE = `-- row.redrive
update {table} set {status} = {ready}, {retry_at} = null, {sent_at} = statement_timestamp()
where {id} = any (array(
  select {id} from {table} where {status} = {failed} and {retry_at} <= statement_timestamp()
  order by {retry_at} limit $1 for update skip locked
)) and {status} = {failed}
returning {id}::text`

// Ready rows that were not published for too long: the message was lost, or never sent.
//   $1 too old, in ms  $2 limit
export const RESEND = `-- row.resend
update {table} set {sent_at} = statement_timestamp()
where {id} = any (array(
  select {id} from {table}
  where {status} = {ready} and {sent_at} < statement_timestamp() - $1::float8 * interval '1 ms'
  order by {sent_at} limit $2 for update skip locked
)) and {status} = {ready}
returning {id}::text`
