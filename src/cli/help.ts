import { type Command, type Option, SHARED } from './command.ts'
import { GROUPS } from './groups.ts'
import type { Paint } from './terminal.ts'

export function help(paint: Paint): string {
  const all = GROUPS.flatMap(({ commands }) => commands)
  const width = Math.max(...all.map((command) => usage(command).length))
  const groups = GROUPS.map(({ title, commands }) => {
    const lines = commands.map((command) => {
      const text = usage(command).padEnd(width)
      return `  ${paint('bold', command.name)}${text.slice(command.name.length)}  ${command.help}\n`
    })
    return `${title}\n${lines.join('')}`
  })
  return `${paint('bold', 'leasehold')} <command> [options]

${groups.join('\n')}
Options of every command
${optionLines(SHARED)}
Exit codes
  0  done
  1  unhealthy, a schema that does not fit, or a job that could not be changed
  2  bad input, or no database

\`leasehold <command> --help\` lists the options of a command; \`leasehold --version\` prints the version.
`
}

export function commandHelp(command: Command, paint: Paint): string {
  const own = Object.keys(command.options).length === 0 ? '' : `\n${optionLines(command.options)}`
  return `${paint('bold', `leasehold ${usage(command)}`)} [options]\n\n  ${command.help}\n${own}\n${optionLines(SHARED)}`
}

function usage({ name, takes }: Command): string {
  return `${name} ${takes}`.trimEnd()
}

function optionLines(options: Readonly<Record<string, Option>>): string {
  const flags = Object.entries(options).map(
    ([name, { value }]) => `--${name}${value === undefined ? '' : ` <${value}>`}`,
  )
  const width = Math.max(22, ...flags.map((flag) => flag.length))
  return Object.values(options)
    .map(({ help: text }, at) => `  ${flags[at]!.padEnd(width)}  ${text}\n`)
    .join('')
}
