/**
 * Writes schema.sql: the migrated schema, as the server describes it. It is for reading and for review, and a
 * test compares it with a migrated database. Daily partitions are left out: they depend on the day. So is migration_turn,
 * which migrate() uses while it builds an index.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { migrate } from '../src/db/migrate.ts'
import { startPostgres } from './postgres.ts'

export const DUMP = new URL('../schema.sql', import.meta.url)

const TYPES = `
  select format('create type leasehold.%s as enum (%s);', t.typname,
    string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder)) as text
  from pg_type t join pg_enum e on e.enumtypid = t.oid
  where t.typnamespace = 'leasehold'::regnamespace
  group by t.typname order by t.typname`

const SEQUENCES = `
  select format('create sequence leasehold.%s as %s;', c.relname, format_type(s.seqtypid, null)) as text
  from pg_sequence s join pg_class c on c.oid = s.seqrelid
  where c.relnamespace = 'leasehold'::regnamespace
  order by c.relname`

const TABLES = `
  select format(E'create table leasehold.%s (\\n%s\\n)%s%s;', c.relname,
    concat_ws(E',\\n',
      (select string_agg(format('  %s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
          case when a.attnotnull then ' not null' end, ' default ' || pg_get_expr(d.adbin, d.adrelid)), E',\\n' order by a.attnum)
        from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
      (select string_agg(format('  constraint %s %s', o.conname, pg_get_constraintdef(o.oid)), E',\\n' order by o.contype, o.conname)
        from pg_constraint o where o.conrelid = c.oid and o.contype in ('c', 'p', 'u', 'f', 'x'))),
    ' partition by ' || pg_get_partkeydef(c.oid),
    ' with (' || array_to_string(c.reloptions, ', ') || ')') as text
  from pg_class c
  where c.relnamespace = 'leasehold'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname <> 'migration_turn'
  order by c.relname`

const INDEXES = `
  select pg_get_indexdef(i.indexrelid) || ';' as text
  from pg_index i join pg_class c on c.oid = i.indrelid
  where c.relnamespace = 'leasehold'::regnamespace and not c.relispartition
    and not exists (select from pg_constraint o where o.conindid = i.indexrelid)
  order by i.indexrelid::regclass::text`

const FUNCTIONS = `
  select pg_get_functiondef(p.oid) || ';' as text
  from pg_proc p where p.pronamespace = 'leasehold'::regnamespace
  order by p.proname`

// Before 16 the server names the table of each column, also where a view reads one table alone.
const VIEWS = `
  select format(E'create view leasehold.%s as\n%s', c.relname,
    regexp_replace(pg_get_viewdef(c.oid, true), '\\m(operator_action|worker|carrier|fleet_event|seat)\\.', '', 'g')) as text
  from pg_class c where c.relnamespace = 'leasehold'::regnamespace and c.relkind = 'v'
  order by c.relname`

export async function dumpSchema(client: pg.ClientBase | pg.Pool): Promise<string> {
  const parts = ['-- Made by `npm run schema` from a migrated database. Do not edit.']
  for (const query of [TYPES, SEQUENCES, TABLES, INDEXES, FUNCTIONS, VIEWS]) {
    const { rows } = await client.query<{ text: string }>(query)
    parts.push(...rows.map((row) => row.text.trim()))
  }
  return `${parts.join('\n\n')}\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await startPostgres()
  const client = new pg.Client(server.url)
  await client.connect()
  await migrate(client)
  writeFileSync(DUMP, await dumpSchema(client))
  await client.end()
  await server.stop()
}
