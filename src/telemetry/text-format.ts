/** Prometheus' text format, version 0.0.4. */

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export interface Family {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
}

export type Labels = Readonly<Record<string, string>>

export interface Sample {
  /** Of a histogram: _bucket, _sum or _count. */
  readonly suffix?: string
  readonly labels: Labels
  readonly value: number
}

/** Its HELP and TYPE lines, and a line for each sample. */
export function printFamily(name: string, { type, help }: Family, samples: readonly Sample[]): string {
  const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
  for (const { suffix = '', labels, value } of samples) lines.push(`${name}${suffix}${printLabels(labels)} ${value}`)
  return `${lines.join('\n')}\n`
}

function printLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeValue(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

/** A name may hold anything but NUL: the format has an escape for these three and takes the rest as it is. */
function escapeValue(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
