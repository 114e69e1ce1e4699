import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { GROUPS } from '../../src/cli/groups.ts'
import { commandHelp, help } from '../../src/cli/help.ts'

const page = readFileSync(new URL('../../docs/command.md', import.meta.url), 'utf8')
const plain = (_style: unknown, text: string) => text

test('the page of the command has the help as it is printed', () => {
  assert.ok(page.includes(`\n${help(plain).trimEnd()}\n`))
  for (const command of GROUPS.flatMap(({ commands }) => commands)) {
    const [own] = commandHelp(command, plain).split('\n  --url')
    assert.ok(page.includes(`### \`${command.name}\`\n\n\`\`\`text\n${own!.trimEnd()}\n\`\`\``), command.name)
  }
})
