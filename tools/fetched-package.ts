// Packages that only some runs need, such as an older PostgreSQL: npm installs them into a cache when they are first asked for.
import fs from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openHome, success } from '../src/testing/programs.ts'
import { canWriteIn, ownCache } from './cache.ts'

/** The folder of the package. `as` names its folder in the cache. */
export async function fetchedPackage(name: string, version: string, as: string): Promise<string> {
  const inside = (cache: string) => join(cache, `${as}-${version}`, 'node_modules', name)
  const shared = fileURLToPath(new URL('../node_modules/.cache/leasehold', import.meta.url))
  if (fs.existsSync(inside(shared))) return inside(shared)
  const cache = canWriteIn(shared) ? shared : ownCache()
  if (fs.existsSync(inside(cache))) return inside(cache)

  // Installed aside and renamed whole: two processes may fetch the same version at once.
  const home = await openHome(cache)
  try {
    const aside = join(home.directory, 'install')
    fs.mkdirSync(aside)
    const npmCache = canWriteIn(homedir()) ? [] : ['--cache', join(home.directory, 'npm')]
    const flags = ['--no-save', '--no-package-lock', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', aside]
    await success(home.run('npm', ['install', ...flags, ...npmCache, `${name}@${version}`]))
    if (!fs.existsSync(inside(cache))) fs.renameSync(aside, join(cache, `${as}-${version}`))
  } catch (error) {
    if (!fs.existsSync(inside(cache))) throw error
  } finally {
    await home.close()
  }
  return inside(cache)
}
