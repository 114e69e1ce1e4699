// A project of a user's: made with `npm init`, with the package installed from its tarball. Not below the repository, whose
// node_modules would be found from there, and with a space in its path, as many have.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TSC = join(ROOT, 'node_modules', '.bin', 'tsc')

/** The variables that npm sets for its scripts would make a nested npm use this directory. */
function environment(): NodeJS.ProcessEnv {
  const isOfThisRun = /^npm_(package|lifecycle|config_local_prefix)|^INIT_CWD$|^NODE_TEST_CONTEXT$/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOfThisRun.test(name)))
}

export function run(cwd: string, command: string, args: readonly string[], env = {}): ChildProcess {
  return spawn(command, args, { cwd, env: { ...environment(), ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
}

/** The output of a program that ends with success. */
export async function ended(child: ChildProcess): Promise<string> {
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const [code, signal] = await once(child, 'close')
  assert.equal(signal ?? code, 0, `${child.spawnargs.join(' ')}\n${stdout}${stderr}`)
  return stdout
}

export function output(cwd: string, command: string, ...args: string[]): Promise<string> {
  return ended(run(cwd, command, args))
}

export class Project {
  readonly folder: string
  readonly #home: string

  constructor(home: string, folder: string) {
    this.#home = home
    this.folder = folder
  }

  /** Packages as the repository has them. */
  async install(...names: string[]): Promise<void> {
    const { devDependencies, dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const versions = { ...devDependencies, ...dependencies }
    const wanted = names.map((name) => (name in versions ? `${name}@${versions[name]}` : name))
    await output(this.folder, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', ...wanted)
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true })
    writeFileSync(join(this.folder, path), text)
  }

  /** Of the folder examples/. */
  copyExample(path: string): void {
    cpSync(join(ROOT, 'examples', path), join(this.folder, path), { recursive: true })
  }

  /** Compiles what was written so far. Our own declarations are checked with it, and those of other packages, too. */
  async compile(include: readonly string[], checksLibraries = true): Promise<void> {
    const compilerOptions = {
      target: 'es2023',
      module: 'nodenext',
      types: ['node'],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: !checksLibraries,
      outDir: 'out',
      rootDir: '.',
      rewriteRelativeImportExtensions: true,
    }
    this.write('tsconfig.json', JSON.stringify({ compilerOptions, include }))
    await output(this.folder, TSC)
  }

  /** Runs a compiled program. */
  start(program: string, env = {}, ...flags: string[]): ChildProcess {
    return run(this.folder, process.execPath, [...flags, join('out', program)], env)
  }

  remove(): void {
    rmSync(this.#home, { recursive: true, force: true })
  }
}

/** Built apart from dist/, which another test may be building. */
export async function makeProject(): Promise<Project> {
  const home = mkdtempSync(join(tmpdir(), 'leasehold project '))
  const folder = join(home, 'a shop')
  const source = join(home, 'leasehold')
  mkdirSync(folder)
  mkdirSync(source)
  await output(ROOT, TSC, '-p', 'tsconfig.build.json', '--outDir', join(source, 'dist'))
  cpSync(join(ROOT, 'package.json'), join(source, 'package.json'))
  await output(source, 'npm', 'pack', '--ignore-scripts', '--pack-destination', home)
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const project = new Project(home, folder)
  await output(folder, 'npm', 'init', '-y')
  await output(folder, 'npm', 'pkg', 'set', 'type=module')
  await project.install(join(home, `leasehold-${version}.tgz`), '@types/node')
  return project
}
