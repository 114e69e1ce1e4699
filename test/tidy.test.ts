// The style guide that runs. A rule that is broken for a good reason gets a line in its list of exceptions, with the
// reason; a limit may only be lowered.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { ERROR_CODES } from '../src/core/errors.ts'
import { STATUSES } from '../src/jobs/job.ts'

const ROOT = new URL('..', import.meta.url)

function filesUnder(...folders: string[]): string[] {
  return folders.flatMap((folder) =>
    readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' })
      .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
      .filter((path) => path.endsWith('.ts') && !path.includes('/node_modules/')),
  )
}

function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8')
}

const sources = filesUnder('src')
const tests = filesUnder('test')
const everything = [...sources, ...tests, ...filesUnder('tools', 'bench', 'demo', 'chaos', 'examples')]

test('imports point down: cli → features → inspect → worker → inbox → tables → effects → jobs → runtime → db → ring → core', () => {
  const layers = [
    'core',
    'ring',
    'db',
    'runtime',
    'jobs',
    'effects',
    'tables',
    'inbox',
    'worker',
    'inspect',
    'telemetry',
    'outbox',
    'consumer',
    'sqs',
    'nats',
    'workflow',
    'adapters',
    'dashboard',
    'cli',
    'testing',
  ]
  for (const path of sources) {
    const own = path.split('/')[1]!
    if (own.endsWith('.ts')) continue // src/index.ts is the public face of all of them
    assert.ok(layers.includes(own), `${path} is in no known layer`)
    for (const [, target] of read(path).matchAll(/from '\.\.\/(\w+)\//g)) {
      assert.ok(layers.indexOf(target!) <= layers.indexOf(own), `${path} imports ${target}`)
    }
  }
})

test('SQL lives in *.sql.ts and in migrations', () => {
  for (const path of sources.filter((file) => !file.endsWith('.sql.ts') && !file.endsWith('.generated.ts'))) {
    const found = /`[^`]*\b(select|insert into|update|delete from)\s[^`]*\b(leasehold\.|from|set)\b/i.exec(read(path))
    assert.equal(found?.[0], undefined, path)
  }
})

test('statements are constant: nothing is spliced into them but another constant of their file', () => {
  for (const path of sources.filter((file) => file.endsWith('.sql.ts'))) {
    for (const [, spliced] of read(path).matchAll(/\$\{([^}]*)/g)) {
      assert.match(read(path), new RegExp(`^const ${spliced} = \``, 'm'), `${path}: ${spliced}`)
    }
  }
})

test('each table is written from one folder', () => {
  const writers = new Map<string, Set<string>>()
  for (const path of sources.filter((file) => file.endsWith('.sql.ts'))) {
    for (const [, table] of read(path).matchAll(/\b(?:insert into|update|delete from)\s+leasehold\.(\w+)/g)) {
      const folders = writers.get(table!) ?? new Set()
      writers.set(table!, folders.add(path.split('/')[1]!))
    }
  }
  assert.ok(writers.size > 5)
  writers.get('sweep')!.delete('testing') // A clock that is moved takes the time of the last sweep along.
  writers.delete('operator_action') // Each action of an operator leaves its record by the statement that carries it out.
  for (const [table, folders] of writers) assert.equal(folders.size, 1, `${table}: ${[...folders].join(', ')}`)
})

test('every statement carries its name, and no two the same', () => {
  const names = sources
    .filter((file) => file.endsWith('.sql.ts') && file !== 'src/db/migrate.sql.ts')
    .flatMap((path) => [...read(path).matchAll(/export const (\w+) = `(.*)\n/g)].map(([, , first]) => first!))
  for (const name of names) assert.match(name, /^-- [a-z_]+\.[a-z_]+$/)
  assert.equal(new Set(names).size, names.length)
})

test('no file is a drawer', () => {
  for (const path of everything) {
    assert.doesNotMatch(path, /(^|\/)(utils?|helpers?|common|types|manager|misc)\.ts$/)
  }
})

test('timers are set in one file, and no test sleeps', () => {
  for (const path of sources.filter((file) => file !== 'src/core/timer.ts')) {
    assert.doesNotMatch(read(path), /\bset(Timeout|Interval)\b/, path)
  }
  // The launcher's test watches processes end, which no promise announces. The movable clock makes timers ring earlier.
  const exceptions = ['test/tools/postgres.test.ts', 'test/support/movable-clock.ts', 'test/tidy.test.ts']
  for (const path of tests.filter((file) => !exceptions.includes(file))) {
    assert.doesNotMatch(read(path), /\bset(Timeout|Interval)\b|pg_sleep|(?<!run\.)\bsleep\(/, path)
  }
})

test('no test is skipped, focused or left to do, and nothing is left for later in the code', () => {
  for (const path of everything.filter((file) => file !== 'test/tidy.test.ts')) {
    assert.doesNotMatch(read(path), /\b(test|it|describe|t)\.(only|skip|todo)\b|\b(TODO|FIXME|XXX)\b/, path)
  }
  // Tests of programs that a machine may lack, and of shells on Windows. Neither is skipped in CI.
  const exceptions = ['test/support/optional-program.ts', 'test/tools/postgres.test.ts', 'test/tidy.test.ts']
  for (const path of tests.filter((file) => !exceptions.includes(file))) {
    assert.doesNotMatch(read(path), /\{ (skip|todo|only): /, path)
  }
})

/** The forms that make a reader look for the actor. Per 1,000 words of comments, or of prose. */
const VAGUE = [
  { words: /\b(somebody|nobody|whoever|whatever|anybody)\b/gi, most: 1 },
  { words: /\b(tell|tells|told|telling|say|says|said|saying)\b/gi, most: 1.5 },
]

test('comments and prose name the actor and use the verbs of the field', () => {
  const comments = sources.filter((file) => !file.endsWith('.generated.ts')).map((file) => commentsOf(read(file)))
  const pages = readdirSync(new URL('docs', ROOT)).filter((file) => file.endsWith('.md'))
  const prose = ['README.md', ...pages.map((file) => `docs/${file}`)].map((file) => withoutCode(read(file)))
  for (const [what, parts] of [
    ['comments of src', comments],
    ['README and docs', prose],
  ] as const) {
    const text = parts.join('\n')
    const thousands = text.match(/[A-Za-z']+/g)!.length / 1_000
    for (const { words, most } of VAGUE) {
      const found = text.match(words) ?? []
      assert.ok(found.length <= most * thousands, `${what}: ${found.length} times ${[...new Set(found)].join(', ')}`)
    }
  }
})

function commentsOf(source: string): string {
  return [...source.matchAll(/\/\*([\s\S]*?)\*\/|(?:^|\s)\/\/(.*)/gm)]
    .map(([, block, line]) => block ?? line)
    .join('\n')
}

function withoutCode(page: string): string {
  return page.replaceAll(/^```[\s\S]*?^```/gm, '')
}

test('files stay short enough to read', () => {
  for (const path of everything.filter((file) => !file.endsWith('.generated.ts'))) {
    const lines = read(path).split('\n').length
    assert.ok(lines <= 310, `${path} has ${lines} lines`)
  }
})

test('the documentation lists the statuses and error codes that the code has', () => {
  const architecture = read('ARCHITECTURE.md')
  for (const word of [...STATUSES, ...ERROR_CODES]) assert.ok(architecture.includes(`\`${word}\``), word)
  const codes = [...architecture.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code!)
  assert.deepEqual(codes.sort(), [...ERROR_CODES].sort())
})

test('the root of the package has at most 48 names', () => {
  const lists = [...read('src/index.ts').matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(([, names]) => names!)
  const names = lists.flatMap((list) => list.split(',')).filter((name) => name.trim() !== '')
  assert.ok(names.length > 30 && names.length <= 48, String(names.length))
})

test('every decision that the code names exists, and every decision is named in the architecture', () => {
  const decisions = readdirSync(new URL('decisions', ROOT)).filter((file) => file.endsWith('.md'))
  const texts = [...everything.map(read), read('ARCHITECTURE.md'), ...migrations()]
  for (const [, number] of texts.join('\n').matchAll(/decisions\/(\d{4})/g)) {
    assert.ok(
      decisions.some((file) => file.startsWith(`${number}-`)),
      `decisions/${number}`,
    )
  }
  for (const file of decisions) assert.ok(read('ARCHITECTURE.md').includes(`decisions/${file}`), file)
})

test('every test that the guarantees name exists', () => {
  const named = [...read('docs/guarantees.md').matchAll(/\]\(\.\.\/(test\/[^)]+)\)/g)].map(([, path]) => path!)
  assert.ok(named.length > 20)
  for (const path of named) assert.ok(tests.includes(path), path)
})

function migrations(): string[] {
  return readdirSync(new URL('migrations', ROOT)).map((file) => read(`migrations/${file}`))
}

test('the lock files record no download address', () => {
  for (const path of ['package-lock.json', 'bench/package-lock.json'])
    assert.ok(!read(path).includes('"resolved"'), path)
})
