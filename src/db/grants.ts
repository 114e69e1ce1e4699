/** Rights for roles that own none of the tables: docs/roles.md says what each may do. */
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { GRANT_ACCESS, GRANT_PRODUCER, GRANT_READER, GRANT_WORKER } from './grants.sql.ts'
import { quoteRole, renderNames } from './identifier.ts'
import { quoteSchema, renderSchema } from './lane.ts'

export interface GrantsOptions {
  /** Default: leasehold. */
  readonly schema?: string
  /** The role of workers and of operators' scripts. */
  readonly worker?: string
  /** A role that enqueues, and reads nothing of what it or others have enqueued. */
  readonly producer?: string
  /** A role that reads everything and changes nothing. */
  readonly reader?: string
}

const GRANTS = { worker: GRANT_WORKER, producer: GRANT_PRODUCER, reader: GRANT_READER } as const

/**
 * A script that gives existing roles their rights, for psql or `pool.query`. The owner of the tables runs it after every
 * migration. It can be repeated, and takes no right away.
 */
export function grantsSql(options: GrantsOptions): string {
  checkOptions('grantsSql', options, ['schema', 'worker', 'producer', 'reader'])
  const schema = quoteSchema(options?.schema ?? 'leasehold')
  const scripts: string[] = []
  for (const [of, grants] of Object.entries(GRANTS)) {
    const name = options?.[of as keyof typeof GRANTS]
    if (name === undefined) continue
    const names = { schema, role: quoteRole(`grantsSql.${of}`, name) }
    // The schema first: a role may be called leasehold.x.
    for (const grant of [GRANT_ACCESS, grants]) scripts.push(`${renderNames(renderSchema(grant, schema), names)};\n`)
  }
  if (scripts.length === 0) throw new InvalidOptionError('grantsSql', 'name a worker, a producer or a reader')
  return ['begin;\n', ...scripts, 'commit;\n'].join('\n')
}
