/** Rights for roles that do not own the tables. docs/roles.md lists them. */
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { GRANT_ACCESS, GRANT_PRODUCER, GRANT_READER, GRANT_WORKER, LIMIT_STATEMENTS } from './grants.sql.ts'
import { quoteRole, renderNames } from './identifier.ts'
import { quoteSchema, renderSchema } from './lane.ts'

export interface GrantsOptions {
  /** Default: leasehold. */
  readonly schema?: string
  /** The role of workers and of operators' scripts. */
  readonly worker?: string
  /** A role that enqueues, and cannot read any enqueued job. */
  readonly producer?: string
  /** A role that reads everything and changes nothing. */
  readonly reader?: string
  /**
   * Makes the server end every statement of these roles after this long. For roles that connect through a pooler; the role
   * that runs the script must be allowed to alter them. Default: nothing is set.
   */
  readonly statementTimeout?: Duration
}

const GRANTS = { worker: GRANT_WORKER, producer: GRANT_PRODUCER, reader: GRANT_READER } as const

/**
 * A script that grants existing roles their rights, for psql or `pool.query`. The owner of the tables runs it after every
 * migration. It can be repeated, and revokes nothing.
 */
export function grantsSql(options: GrantsOptions): string {
  checkOptions('grantsSql', options, ['schema', 'worker', 'producer', 'reader', 'statementTimeout'])
  const schema = quoteSchema(options?.schema ?? 'leasehold')
  const timeout = options?.statementTimeout
  const limit = timeout === undefined ? undefined : Math.ceil(durationMs('grantsSql.statementTimeout', timeout, 1))
  const scripts: string[] = []
  for (const [of, grants] of Object.entries(GRANTS)) {
    const name = options?.[of as keyof typeof GRANTS]
    if (name === undefined) continue
    const names = { schema, role: quoteRole(`grantsSql.${of}`, name), limit: `'${limit}ms'` }
    const all = limit === undefined ? [GRANT_ACCESS, grants] : [GRANT_ACCESS, grants, LIMIT_STATEMENTS]
    // The schema first: a role may be called leasehold.x.
    for (const grant of all) scripts.push(`${renderNames(renderSchema(grant, schema), names)};\n`)
  }
  if (scripts.length === 0) throw new InvalidOptionError('grantsSql', 'name a worker, a producer or a reader')
  return ['begin;\n', ...scripts, 'commit;\n'].join('\n')
}
