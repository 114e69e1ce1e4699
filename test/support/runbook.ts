// A runbook as its reader follows it: the commands and the SQL are those of the page.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type pg from 'pg'
import { splitSql } from '../../tools/split-sql.ts'
import { command } from './command.ts'

/** What stands for `<job>`, `<queue>` and the like. */
export type Filling = Readonly<Record<string, string>>

export interface Reader {
  readonly url: string
  readonly pool: pg.Pool
}

/** The commands of a text, in order, without `npx leasehold`. */
export function commandsIn(text: string): string[] {
  return [...text.matchAll(/npx leasehold ([^`\n]+)/g)].map(([, rest]) => rest!.trim())
}

export class Runbook {
  readonly #confirm: string
  readonly #toDo: string

  constructor(path: string) {
    const page = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
    const [, confirm, toDo] = page.split(/^## .*$/m)
    this.#confirm = confirm!
    this.#toDo = toDo!
  }

  /** Everything that the commands and the SQL under "Confirm" print. */
  async confirm({ url, pool }: Reader, filling: Filling): Promise<string> {
    const printed: string[] = []
    for (const line of commandsIn(this.#confirm)) {
      const { out, err, code } = await command(url, ...words(line, filling))
      assert.notEqual(code, 2, `${line}: ${err}`)
      printed.push(out)
    }
    for (const [, block] of this.#confirm.matchAll(/```sql\n([\s\S]*?)```/g)) {
      for (const sql of splitSql(block!.replaceAll('9182', filling.job ?? '9182'))) {
        printed.push(JSON.stringify((await pool.query(sql)).rows))
      }
    }
    return printed.join('\n')
  }

  /** Runs the command under "What to do" that begins so. */
  async does({ url }: Reader, start: string, filling: Filling): Promise<string> {
    const line = commandsIn(this.#toDo).find((each) => each.startsWith(start)) ?? assert.fail(`no command ${start}`)
    const { out, err, code } = await command(url, ...words(line, filling))
    assert.equal(code, 0, `${line}: ${out}${err}`)
    return out
  }
}

function words(line: string, filling: Filling): string[] {
  return line.split(' ').map((word) => word.replace(/^<(\w+)>$/, (_, name) => filling[name] ?? assert.fail(line)))
}
