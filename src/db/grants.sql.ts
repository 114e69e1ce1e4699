// The rights of the roles in docs/roles.md. {role} and {schema} become quoted names (grants.ts). A right on a partitioned
// table covers its partitions; only the default partitions, which are pruned row by row, are named themselves.

// Every role. Functions run with the rights of their caller.
export const GRANT_ACCESS = `-- grants.access
grant usage on schema {schema} to {role};
grant execute on all functions in schema {schema} to {role};
grant select on leasehold.migration to {role}`

// The columns that an enqueue writes, and those that it reads back. None of those holds a part of an input, a result or an
// error. input_hash shows whether a key was used with another input.
export const GRANT_PRODUCER = `-- grants.producer
grant usage on sequence leasehold.job_id, leasehold.order_check_id, leasehold.event_place, leasehold.signal_id to {role};
grant insert (id, available_at, created_at, max_attempts, priority, partition_bucket, expires_at, queue, kind, payload,
  partition_key, idempotency_key, metadata, key_seq, blocked, line) on leasehold.job to {role};
grant select (id, queue, available_at, partition_key, key_seq, claim_id, blocked, salt, line) on leasehold.job to {role};
grant select (queue, partition_key, blocks_key) on leasehold.dead_letter to {role};
grant insert (queue, key), update (reused), select (queue, key, reused) on leasehold.order_key
  to {role};
grant insert (queue, key) on leasehold.order_check to {role};
grant insert (queue, key, job_id, keep_for, input_hash, due_at) on leasehold.idempotency_key to {role};
grant select (queue, key, job_id, input_hash) on leasehold.idempotency_key to {role};
grant select (queue, until) on leasehold.busy to {role};
grant select (name, wakes, ordered, fair, on_dead_letter, ring, by_key) on leasehold.queue to {role};
grant select (name, queue, priority, max_attempts, keep_key) on leasehold.kind to {role};
grant insert on leasehold.event to {role};
grant insert (id, job_id, salt, sent_at, name, payload, idempotency_key) on leasehold.signal to {role};
grant select (id, salt) on leasehold.dead_letter to {role};
grant select (name, types, max_attempts) on leasehold.destination to {role}`

export const GRANT_READER = `-- grants.reader
grant select on leasehold.job, leasehold.claim, leasehold.archive, leasehold.dead_letter, leasehold.job_attempt,
  leasehold.idempotency_key, leasehold.effect, leasehold.inbox, leasehold.busy, leasehold.duty, leasehold.sweep,
  leasehold.queue, leasehold.kind, leasehold.pause, leasehold.settings, leasehold.worker, leasehold.operator_action,
  leasehold.order_key, leasehold.order_check, leasehold.event, leasehold.destination, leasehold.step, leasehold.signal,
  leasehold.seat, leasehold.epoch, leasehold.fleet_event to {role};
grant select on leasehold.jobs, leasehold.attempts, leasehold.workers, leasehold.operator_actions, leasehold.blocked_keys,
  leasehold.destinations, leasehold.runs, leasehold.steps, leasehold.seats, leasehold.fleet_events to {role}`

// A lock on a row (FOR UPDATE, FOR SHARE) needs the right to update. A worker's role can pause queues and kinds; configure() is
// for the owner.
export const GRANT_WORKER = `-- grants.worker
grant usage on sequence leasehold.job_id, leasehold.operator_action_id, leasehold.order_check_id, leasehold.event_place,
  leasehold.signal_id, leasehold.fleet_event_id to {role};
grant select, insert, update, delete on leasehold.job, leasehold.claim, leasehold.dead_letter, leasehold.effect,
  leasehold.inbox, leasehold.worker, leasehold.operator_action, leasehold.order_key, leasehold.order_check, leasehold.step,
  leasehold.signal, leasehold.fleet_event, leasehold.seat to {role};
grant select, insert, delete on leasehold.epoch to {role};
grant select, insert, update, delete on leasehold.idempotency_key to {role};
grant select, insert on leasehold.archive, leasehold.job_attempt to {role};
grant update (outcome) on leasehold.job_attempt to {role};
grant select, delete on leasehold.archive_default, leasehold.job_attempt_default to {role};
grant select, insert, update on leasehold.busy, leasehold.duty, leasehold.sweep to {role};
grant select on leasehold.queue, leasehold.kind, leasehold.settings to {role};
grant select, insert, delete on leasehold.pause to {role};
grant select, insert on leasehold.event to {role};
grant select on leasehold.destination to {role};
grant select on leasehold.jobs, leasehold.attempts, leasehold.workers, leasehold.operator_actions, leasehold.blocked_keys,
  leasehold.destinations, leasehold.runs, leasehold.steps, leasehold.seats, leasehold.fleet_events to {role}`

// For connections through a pooler, which refuses or drops the limit that a worker asks for on its own connections.
export const LIMIT_STATEMENTS = `-- grants.limit
alter role {role} set statement_timeout = {limit}`
