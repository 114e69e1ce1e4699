-- serves code from: 1
--
-- Housekeeping duties. A worker takes a duty by moving its row on: one worker per duty and interval, with no leader to
-- lose and no lock held in between, so it works through a transaction pooler. Each duty is safe to run twice.
create table leasehold.duty (
  name    text not null,
  next_at timestamptz not null default 'epoch',
  constraint duty_pkey primary key (name)
) with (fillfactor = 50, vacuum_truncate = off);

insert into leasehold.duty (name) values ('sweep'), ('suspects'), ('expire'), ('prune'), ('partitions'), ('order'), ('inbox'), ('signals'), ('versions');

-- Whether the database was away, and from when on leases that expired meanwhile are swept (decisions/0030). One row.
create table leasehold.sweep (
  only_row       boolean not null default true,
  server_started timestamptz,
  looked_at      timestamptz,
  swept_until    timestamptz,
  hold_until     timestamptz,
  constraint sweep_pkey primary key (only_row),
  constraint sweep_is_one_row check (only_row)
) with (fillfactor = 50, vacuum_truncate = off);

insert into leasehold.sweep default values;
