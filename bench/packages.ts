/**
 * The packages of bench/package.json: the peers, and the Node that all contenders run on. They are installed when the
 * benchmark first runs, and again when their lock file has changed; nothing else needs them.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { canWriteIn, ownCache } from '../tools/cache.ts'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const STAMP = join(HERE, 'node_modules', '.installed')
const OLDEST = { major: 22, minor: 18 } // What graphile-worker asks for, and the first that runs TypeScript unasked.

export async function installPackages(say: (text: string) => void): Promise<void> {
  const wanted = createHash('sha256')
    .update(readFileSync(join(HERE, 'package-lock.json')))
    .digest('hex')
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === wanted) return
  say('installing the packages of bench/')
  const cache = canWriteIn(homedir()) ? [] : ['--cache', join(ownCache(), 'npm')]
  await npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', ...cache])
  writeFileSync(STAMP, wanted)
}

/** The running Node if it is new enough, or the one among the packages. */
export function contendersNode(): string {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > OLDEST.major || (major === OLDEST.major && minor >= OLDEST.minor)) return process.execPath
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const folder = join(HERE, 'node_modules', `node-${platform}-${process.arch}`, 'bin')
  const node = join(folder, process.platform === 'win32' ? 'node.exe' : 'node')
  if (existsSync(node)) return node
  const oldest = `${OLDEST.major}.${OLDEST.minor}`
  throw new Error(
    `The benchmark needs Node ${oldest}, and npm has none for ${platform}-${process.arch}: run it on one.`,
  )
}

function npm(args: readonly string[]): Promise<void> {
  const script = process.env.npm_execpath
  const [command, first] = script?.endsWith('.js') ? [process.execPath, [script]] : ['npm', []]
  return new Promise((resolve, reject) => {
    const shell = command === 'npm' && process.platform === 'win32'
    const child = spawn(command, [...first, ...args], { cwd: HERE, stdio: ['ignore', 2, 2], shell })
    child.once('error', reject)
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`npm ${args[0]} failed in ${HERE}`))))
  })
}
