// Databases of tests. Sent over a connection to the user's server, not over a lane. {name} and {template} are quoted names.

// Processes that need the template at the same moment.   $1 name of the template
export const LOCK_TEMPLATE = `-- database.lock_template
select pg_advisory_lock(hashtextextended($1, 0))`

// Ready: it was migrated to its end, and no session can have changed it since.   $1 name
export const FIND_TEMPLATE = `-- database.find_template
select not datallowconn as is_ready from pg_database where datname = $1`

export const CREATE = `-- database.create
create database {name} template template0`

export const CLONE = `-- database.clone
create database {name} template {template}`

export const CLOSE_TEMPLATE = `-- database.close_template
alter database {name} with allow_connections false`

// Also ends sessions that a failed test left open.
export const DROP = `-- database.drop
drop database if exists {name} with (force)`

// Of processes that died before they could drop them: at least a day old, by the time in their name, and without a session.
export const LIST_LEFT_BEHIND = `-- database.list_left_behind
select datname from pg_database d
where datname ~ '^leasehold_test_[0-9]{13}_[0-9a-f]{12}$'
  and pg_has_role(datdba, 'usage')
  and to_timestamp(split_part(datname, '_', 3)::bigint / 1000) < now() - interval '1 day'
  and not exists (select from pg_stat_activity a where a.datid = d.oid)`

export const SHOW_USER = `-- database.show_user
select current_user as role`
