// A strict parser of Prometheus' text format, version 0.0.4: it refuses whatever the format does not allow.
import assert from 'node:assert/strict'

export interface ParsedFamily {
  readonly type: string
  readonly help: string
  readonly samples: { readonly name: string; readonly labels: Record<string, string>; readonly value: number }[]
}

export function parseMetrics(text: string): Map<string, ParsedFamily> {
  assert.ok(text.endsWith('\n'), 'the last line ends with a line feed')
  assert.ok(!text.includes('\r\n'), 'lines end with a line feed alone')
  const families = new Map<string, ParsedFamily>()
  const seen = new Set<string>()
  let help: { name: string; help: string } | undefined
  let current: { name: string; family: ParsedFamily } | undefined
  for (const line of text.slice(0, -1).split('\n')) {
    if (line.startsWith('# HELP ')) {
      const [, name, words] = /^# HELP ([a-zA-Z_:][\w:]*) (.+)$/.exec(line) ?? assert.fail(line)
      help = { name: name!, help: words! }
    } else if (line.startsWith('# TYPE ')) {
      const [, name, type] = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram)$/.exec(line) ?? assert.fail(line)
      assert.equal(help?.name, name, 'HELP comes right before TYPE')
      assert.ok(!families.has(name!), `${name} is declared twice`)
      if (type === 'counter') assert.match(name!, /_total$/)
      current = { name: name!, family: { type: type!, help: help!.help, samples: [] } }
      families.set(name!, current.family)
    } else {
      const sample = parseSample(line)
      assert.ok(current !== undefined, line)
      const suffixes = current.family.type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
      assert.ok(
        suffixes.some((suffix) => sample.name === current!.name + suffix),
        `${line} is under ${current.name}`,
      )
      const identity = JSON.stringify([sample.name, Object.entries(sample.labels).sort()])
      assert.ok(!seen.has(identity), `${line} is there twice`)
      seen.add(identity)
      current.family.samples.push(sample)
    }
  }
  for (const [name, family] of families) if (family.type === 'histogram') checkHistogram(name, family)
  return families
}

function parseSample(line: string): ParsedFamily['samples'][0] {
  const name = /^[a-zA-Z_:][\w:]*/.exec(line)?.[0] ?? assert.fail(line)
  const labels: Record<string, string> = {}
  let at = name.length
  if (line[at] === '{') {
    at++
    while (line[at] !== '}') {
      const [, label] = /^([a-zA-Z_]\w*)="/.exec(line.slice(at)) ?? assert.fail(line)
      at += label!.length + 2
      let value = ''
      for (; line[at] !== '"'; at++) {
        assert.ok(at < line.length, `a value does not end: ${line}`)
        if (line[at] !== '\\') value += line[at]
        else value += { '\\': '\\', '"': '"', n: '\n' }[line[++at]!] ?? assert.fail(`unknown escape: ${line}`)
      }
      assert.ok(!Object.hasOwn(labels, label!), line)
      labels[label!] = value
      at++
      if (line[at] === ',') at++
      else assert.equal(line[at], '}', line)
    }
    at++
  }
  const [, value] = /^ ([+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN)$/.exec(line.slice(at)) ?? assert.fail(line)
  return { name, labels, value: Number(value!.replace('Inf', 'Infinity')) }
}

function checkHistogram(name: string, { samples }: ParsedFamily): void {
  const series = new Map<string, typeof samples>()
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels
    const key = JSON.stringify(labels)
    series.set(key, [...(series.get(key) ?? []), sample])
  }
  for (const of of series.values()) {
    const buckets = of.filter((sample) => sample.name === `${name}_bucket`)
    const bounds = buckets.map(({ labels }) => Number(labels.le!.replace('Inf', 'Infinity')))
    assert.equal(bounds.at(-1), Number.POSITIVE_INFINITY, name)
    for (let n = 1; n < buckets.length; n++) {
      assert.ok(bounds[n]! > bounds[n - 1]! && buckets[n]!.value >= buckets[n - 1]!.value, name)
    }
    const [count] = of.filter((sample) => sample.name === `${name}_count`)
    assert.equal(count?.value, buckets.at(-1)!.value, name)
    assert.equal(of.filter((sample) => sample.name === `${name}_sum`).length, 1, name)
  }
}
