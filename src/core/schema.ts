/**
 * Standard Schema, the interface that Zod, Valibot, ArkType and others implement (standardschema.dev), as far as it is used
 * here. Structural, so no validation library is a dependency.
 */
import { type InputIssue, InvalidInputError } from './errors.ts'

export interface Schema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type Validated<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] }

interface Issue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export type SchemaInput<S extends Schema> = NonNullable<S['~standard']['types']>['input']
export type SchemaOutput<S extends Schema> = NonNullable<S['~standard']['types']>['output']

/** Validates the value. Throws InvalidInputError with paths but no values: inputs hold secrets. */
export async function parseInput(kind: string, schema: Schema, value: unknown): Promise<unknown> {
  const answer = schema['~standard'].validate(value)
  const validated = answer instanceof Promise ? await answer : answer
  if (validated.issues === undefined) return validated.value
  throw new InvalidInputError(kind, validated.issues.map(toIssue))
}

function toIssue(issue: Issue): InputIssue {
  const path = (issue.path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
  return { path, message: issue.message }
}
