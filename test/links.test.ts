// The links of the pages: to files that exist, to headings that exist, and out of the package only to tests and chaos runs.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

interface Link {
  readonly page: string
  /** From the root of the repository. */
  readonly path: string
  /** What follows the `#`, if anything does. */
  readonly heading: string | undefined
}

const pages = [
  ...['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md'],
  ...['docs', 'decisions'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  ),
]

const links = pages.flatMap((page) =>
  [...prose(page).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)].map(([, path, heading]): Link => {
    return { page, path: path === '' ? page : posix.join(dirname(page), path!), heading }
  }),
)

function prose(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8').replaceAll(/^```[\s\S]*?^```$/gm, '')
}

/** As GitHub names the headings of a page: letters, digits, hyphens and underscores; a second heading of a name ends in -1. */
function headingsOf(page: string): Set<string> {
  const found = new Set<string>()
  for (const [, heading] of prose(page).matchAll(/^#{1,6} (.+)$/gm)) {
    const text = heading!.trim().replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    const name = text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
      .replaceAll(' ', '-')
    let unique = name
    for (let n = 1; found.has(unique); n++) unique = `${name}-${n}`
    found.add(unique)
  }
  return found
}

test('every link within the repository leads to a file that exists', () => {
  assert.ok(links.length > 400, String(links.length))
  for (const { page, path } of links) assert.ok(existsSync(join(ROOT, path)), `${path} in ${page}`)
})

test('every link to a heading names one that exists', () => {
  const toHeadings = links.filter(({ heading }) => heading !== undefined)
  assert.ok(toHeadings.length > 50, String(toHeadings.length))
  for (const { page, path, heading } of toHeadings) {
    assert.ok(headingsOf(path).has(heading!), `${path}#${heading} in ${page}`)
  }
})

// docs/guarantees.md explains that the package has neither tests nor chaos runs.
test('pages of the package link to files of the package, to tests and to chaos runs', () => {
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] }
  const packed = [...files, 'README.md', 'LICENSE', 'test', 'chaos']
  for (const { page, path } of links) {
    assert.ok(packed.includes(path.split('/')[0]!), `${path} in ${page}`)
  }
})
