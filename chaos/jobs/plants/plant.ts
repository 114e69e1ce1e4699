import type { PlanOptions } from '../plan.ts'

/** A bug, put into the database or into the statements that processes send. */
export interface Plant extends PlanOptions {
  readonly what: string
  /** The rule that must detect it. */
  readonly breaks: RegExp
  /** Faults without which it does no harm. */
  readonly faults: NonNullable<PlanOptions['faults']>
  /** Run once, by a superuser, before the processes start. */
  readonly sql?: string
  /** Run again and again by a superuser. */
  readonly repeated?: string
  /** Statements that processes send, changed on their way: which one, what in it, by what. */
  readonly rewrite?: readonly Rewrite[]
  /** What a worker process does besides. */
  readonly leaks?: 'connections' | 'memory'
}

export interface Rewrite {
  readonly statement: RegExp
  readonly from: RegExp
  readonly to: string
}

/** Replaces a part of a function of the library; fails when the function no longer has that part. */
export function inFunction(name: string, from: string, to: string): string {
  return `do $plant$
    declare
      before text := pg_get_functiondef('${name}'::regproc);
      after text := replace(before, $from$${from}$from$, $to$${to}$to$);
    begin
      if before = after then raise exception 'there is nothing to plant in ${name}'; end if;
      execute after;
    end $plant$`
}

/** A trigger that runs this body for each row. */
export function trigger(table: string, when: string, body: string): string {
  const name = `plant_${table.replaceAll('.', '_')}`
  return `create function chaos.${name}() returns trigger language plpgsql security definer as $plant$ begin ${body} end $plant$;
    create trigger plant ${when} on ${table} for each row execute function chaos.${name}()`
}
