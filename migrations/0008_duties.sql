-- serves code from: 1
--
-- Who keeps house. A duty is taken by whoever moves its row on: one worker per duty and interval, with no leader to lose
-- and no lock held in between, so it works through a transaction pooler. Each duty is safe to run twice.
create table leasehold.duty (
  name    text not null,
  next_at timestamptz not null default 'epoch',
  constraint duty_pkey primary key (name)
) with (fillfactor = 50, vacuum_truncate = off);

insert into leasehold.duty (name) values ('sweep'), ('suspects'), ('expire'), ('prune'), ('partitions');
