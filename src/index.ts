export * from './core/errors.ts'
export { checkSchema, type MigrateOptions, migrate, migrationSql } from './db/migrate.ts'
