/** SQL that plants a bug in the database. */

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
