// Runs a program of docs/your-transaction.md as it is printed, and looks at what it has committed.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { freshDatabase } from '../support/database.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PAGE = readFileSync(`${ROOT}docs/your-transaction.md`, 'utf8')

/** `home` is within the repository, whose packages are found from there. */
export function runsFromPage(name: string, home = `${ROOT}.cache/your-transaction/`): void {
  test(`the program ${name} of docs/your-transaction.md commits the order and its job`, async (t) => {
    const [, code] = new RegExp(`^\`\`\`ts\\n(// ${name}\\n[\\s\\S]*?)^\`\`\`$`, 'm').exec(PAGE) ?? assert.fail(name)
    const [, table] = /^```sql\n([\s\S]*?)^```$/m.exec(PAGE) ?? assert.fail('the table')
    const { pool, url } = await freshDatabase(t)
    await pool.query(`${table}; insert into orders values (9182)`)
    mkdirSync(home, { recursive: true })
    writeFileSync(`${home}package.json`, readOr(`${home}package.json`, '{ "type": "module" }'))
    writeFileSync(`${home}${name}`, code!)
    const env = { ...process.env, DATABASE_URL: url, TSX_TSCONFIG_PATH: `${ROOT}examples/tsconfig.json` }
    await promisify(execFile)(process.execPath, ['--import', 'tsx', `${home}${name}`], { cwd: ROOT, env })
    const { rows } = await pool.query('select paid, kind, payload from orders, leasehold.job')
    assert.deepEqual(rows, [{ paid: true, kind: 'send_receipt', payload: { orderId: 9182 } }])
  })
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return otherwise
  }
}
