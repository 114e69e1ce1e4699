-- serves code from: 1
--
-- A queue that keeps up is empty whenever vacuum looks at it. The planner then finds a scan cheaper than any index, and a
-- prepared statement keeps that plan while a burst fills the table: each claim reads all of it, until the next analyze.
-- So these tables never look small: they start with some pages and, with vacuum_truncate off, never give them back
-- (decisions/0005). Called by every migrate(), since VACUUM FULL or a restore does shrink them.
create function leasehold.reserve_pages() returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  wide constant text := repeat('x', 1800);
begin
  if not leasehold.is_owner() then
    return null;
  end if;
  -- Inserted and deleted in one transaction, so no session ever sees these rows. Each fills a good part of a page.
  if pg_relation_size('leasehold.job') < 256 * 8192 then
    insert into leasehold.job (id, available_at, created_at, partition_bucket, queue, kind, payload, blocked)
    select -n, 'infinity', 'infinity', 0, '', '', to_jsonb(wide), true from generate_series(1, 256) n;
    delete from leasehold.job where id < 0;
  end if;
  if pg_relation_size('leasehold.claim') < 256 * 8192 then
    insert into leasehold.claim (id, worker_id, claimed_at, expires_at, job_ids)
    select -n, '00000000-0000-0000-0000-000000000000', '-infinity', 'infinity', array_fill(0::bigint, array[200])
    from generate_series(1, 1024) n;
    delete from leasehold.claim where id < 0;
  end if;
  if pg_relation_size('leasehold.dead_letter') < 256 * 8192 then
    insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts,
      crashes, priority, partition_bucket, salt, queue, kind, reason, payload)
    select -n, 'infinity', 'infinity', 'infinity', 0, 0, 1, 0, 0, 0, 0, '', '', 'fatal', to_jsonb(wide)
    from generate_series(1, 1024) n;
    delete from leasehold.dead_letter where id < 0;
  end if;
  if pg_relation_size('leasehold.idempotency_key') < 256 * 8192 then
    insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
    select '', n::text, -n, '0', convert_to(wide, 'UTF8'), 'infinity' from generate_series(1, 1024) n;
    delete from leasehold.idempotency_key where job_id < 0;
  end if;
  -- Made by a later migration; this runs after all of them.
  if pg_relation_size('leasehold.effect') < 256 * 8192 then
    insert into leasehold.effect (job_id, lease_generation, salt, started_at, finished_at, name, result)
    select -n, 0, 0, 'epoch', 'epoch', '', to_jsonb(wide) from generate_series(1, 1024) n;
    delete from leasehold.effect where job_id < 0;
  end if;
  if pg_relation_size('leasehold.step') < 256 * 8192 then
    insert into leasehold.step (job_id, recorded_at, started_at, lease_generation, worker_id, place, nth, salt, attempt, state, type,
      name, result)
    select -n, 'epoch', 'epoch', 0, '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 'recorded', '', '', to_jsonb(wide)
    from generate_series(1, 1024) n;
    delete from leasehold.step where job_id < 0;
  end if;
  if pg_relation_size('leasehold.signal') < 256 * 8192 then
    insert into leasehold.signal (id, job_id, sent_at, salt, noticed, name, payload)
    select n, -n, 'epoch', 0, true, '', to_jsonb(wide) from generate_series(1, 1024) n;
    delete from leasehold.signal where job_id < 0;
  end if;
  return true;
end
$$;

-- A logical replica or a partial restore has the rows and not the sequence, and would hand out ids that are in use. Called
-- by every migrate(). Only ever forwards; null for a role that does not own the tables.
create function leasehold.raise_job_id() returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  highest bigint;
begin
  if not leasehold.is_owner() then
    return null;
  end if;
  select greatest(
    (select max(j.id) from leasehold.job j), (select max(d.id) from leasehold.dead_letter d),
    (select max(a.id) from leasehold.archive a), (select max(k.job_id) from leasehold.idempotency_key k),
    (select max(e.job_id) from leasehold.effect e), (select max(s.job_id) from leasehold.step s)
  ) into highest;
  if highest > (select s.last_value from leasehold.job_id s) then
    return setval('leasehold.job_id', highest);
  end if;
  return 0;
end
$$;
