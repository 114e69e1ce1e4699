// Dead letters for an operator, oldest first, a page at a time. What a page looks at is bounded, and so is its time; a filter that
// fits few leaves it nearly empty.
//   $1 queue or null  $2 kind or null  $3 reason or null  $4 part of the error, or null  $5 died at least so many ms ago
//   $6 died at, of the last one looked at, or null  $7 its id  $8 dead letters to look at
export const PAGE_OF_DEAD_LETTERS = `-- inspect.page_of_dead_letters
select id, queue, kind, reason, concat_ws(': ', error ->> 'name', error ->> 'message') as error, died_at,
  extract(epoch from died_at) * 1000 as died_ms,
  ($2::text is null or kind = $2) and ($3::text is null or reason = $3)
    and ($4::text is null or strpos(lower(concat_ws(': ', error ->> 'name', error ->> 'message')), lower($4)) > 0) as fits
from (
  select id, queue, kind, reason, error, died_at from leasehold.dead_letter
  where ($1::text is null or queue = $1) and died_at <= leasehold.clock() - $5 * interval '1 ms'
    and ($6::timestamptz is null or (died_at, id) > ($6, $7::bigint))
  order by died_at, id
  limit $8
) as page
order by page.died_at, page.id`
