// Seats on the ring: migrations/0014_ring.sql has the argument.

//   $1 worker id  $2 label  $3 queues  $4 weight  $5 the seat it wants, or null  $6 lease in ms  $7, $8 the epoch it acknowledges, and
//   its salt  $9 it leaves
export const BEAT = `-- ring.beat
select leasehold.ring_beat($1, $2, $3, $4::real, $5::smallint, $6, $7, $8, $9) as answer`

// The queues among these that are on the ring or were, and whether a worker has a seat for them.   $1 queues
export const READ_RINGS = `-- ring.read
select q.name as queue, q.ring as strategy, exists (
    select from leasehold.seat s where q.name = any (s.queues) and s.expires_at > leasehold.clock()
  ) as is_manned
from leasehold.queue q
where q.by_key and q.ring is not null and q.name = any ((select $1::text[])::text[])`

// Who sits where, for this queue.   $1 queue
export const READ_SEATS = `-- ring.seats
select s.number, s.weight, s.worker_id, s.label, q.ring as strategy
from leasehold.queue q left join leasehold.seat s on q.name = any (s.queues) and s.expires_at > leasehold.clock()
where q.name = $1 and q.by_key and q.ring is not null
order by s.number`

// Queues on the ring in which jobs with keys wait, and for which no worker has a seat.
export const QUEUES_WITHOUT_SEATS = `-- ring.queues_without_seats
select q.name as queue, (select max(e.number) from leasehold.epoch e) as epoch
from leasehold.queue q
where q.by_key and q.ring <> 'off'
  and not exists (select from leasehold.seat s where q.name = any (s.queues) and s.expires_at > leasehold.clock())
  and (
    select true from leasehold.job j
    where j.queue = q.name and j.line > 0 and not j.blocked and j.crashes = 0
    order by j.queue, j.line
    limit 1
  )
order by q.name`
