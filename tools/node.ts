// Other versions of Node, from npm. A program named by a variable comes first.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fetchedPackage } from './fetched-package.ts'

export const NODE_VERSIONS = [20, 22, 24] as const
export type NodeVersion = (typeof NODE_VERSIONS)[number]

/** Of 20, the oldest that package.json allows. */
const FETCHED = { 20: '20.19.0', 22: '22.23.3', 24: '24.21.0' }

/** The path of a Node of this version. */
export async function nodeProgram(version: NodeVersion): Promise<string> {
  const variable = `LEASEHOLD_NODE_${version}`
  const named = process.env[variable]
  if (named) {
    if (existsSync(named)) return named
    throw new Error(`${variable} names ${named}, which does not exist.`)
  }
  if (process.versions.node === FETCHED[version]) return process.execPath
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const name = `node-${platform}-${process.arch}`
  const folder = await fetchedPackage(name, FETCHED[version], 'node').catch((cause) => {
    const advice = `Set ${variable} to the path of a Node ${version}.`
    throw new Error(`npm has no ${name} ${FETCHED[version]}. ${advice}`, { cause })
  })
  return join(folder, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
}
