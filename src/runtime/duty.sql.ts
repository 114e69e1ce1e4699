// Takes the duties that are due, and returns how long the others can wait. The worker that moves the row on has the duty; a row
// that another one is moving is skipped. A next time further away than two intervals was set by a clock that has since jumped back.
//   $1 duties  $2 their intervals in ms
export const TAKE_DUTIES = `-- duty.take
with asked as materialized (
  select i.name, i.every_ms, d.name is not null as due
  from unnest((select $1::text[]), (select $2::float8[])) as i (name, every_ms)
  left join lateral (
    select name from leasehold.duty
    where duty.name = i.name and (next_at <= leasehold.clock()
      or next_at > leasehold.clock() + 2 * i.every_ms * interval '1 ms')
    limit 1
    for update skip locked
  ) d on true
), moved as (
  update leasehold.duty
  set next_at = leasehold.clock() + (select every_ms from asked where asked.name = duty.name) * interval '1 ms'
  where name = any (array(select name from asked where due))
)
select name, due,
  (select extract(epoch from next_at - leasehold.clock()) * 1000 from leasehold.duty where duty.name = asked.name) as wait_ms
from asked`

// $1 duty  $2 in ms
export const SOONER = `-- duty.sooner
update leasehold.duty set next_at = least(next_at, leasehold.clock() + $2 * interval '1 ms') where name = $1`

//   $1 names
export const ADD_DUTIES = `-- duty.add
insert into leasehold.duty (name) select unnest($1::text[]) on conflict do nothing`
