// The statements of what the outbox is measured beside.

/** The row that publish stores, by a plain insert. */
export const INSERT_EVENT = `insert into leasehold.event (id, published_at, time, source, type, key, data_content_type, data)
  values (gen_random_uuid(), leasehold.clock(), leasehold.clock(), $1, $2, $3, $4, $5) returning id, published_at::text as at`

export const CREATE_BASELINE = `create table baseline_message (
  id bigint generated always as identity primary key, key text not null, data jsonb not null, claimed_at timestamptz)`

export const FILL_BASELINE = `insert into baseline_message (key, data)
  select 'order:' || n % $2::integer, $3::jsonb from generate_series(1, $1::integer) n`

export const TAKE_TURN = 'select pg_advisory_xact_lock(35)'

export const NEXT_MESSAGES = `update baseline_message set claimed_at = now()
  where id = any (array(select id from baseline_message where claimed_at is null order by id limit $1))
  returning id, key, data`

export const DELETE_MESSAGE = 'delete from baseline_message where id = $1'
