/** What only an operator can decide: a key goes on without its dead letter, and what became of an effect. */
import type { EffectFinding } from '../effects/ledger.ts'
import type { Call, Command } from './command.ts'
import { Failure, quoted } from './failure.ts'
import { checkKnown, notFound, parseJson } from './jobs.ts'
import { BY, byOf, YES } from './operate.ts'
import { neutral } from './terminal.ts'

export const unblock: Command = {
  name: 'unblock',
  takes: '--queue <name> --key <key>',
  help: 'run the jobs of a key without its dead letter; needs --yes',
  count: [0, 0],
  options: {
    queue: { value: 'name', help: 'the ordered queue' },
    key: { value: 'key', help: 'the partition key' },
    yes: YES,
    by: BY,
  },
  run: (call) =>
    call.withDatabase(async (database) => {
      const [queue, partitionKey] = [call.text('queue'), call.text('key')]
      if (queue === undefined || partitionKey === undefined) {
        throw new Failure('write: leasehold unblock --queue <name> --key <key>')
      }
      await checkKnown(database, 'queue', queue)
      call.confirm(`run the jobs of key ${quoted(partitionKey)} without its dead letter,`, database)
      const outcome = await database.leasehold.unblock({ queue, partitionKey }, byOf(call))
      const sentences = {
        unblocked: 'goes on; its dead letters stay dead letters.',
        not_blocked: 'has no dead letter in its way; nothing was changed.',
      }
      call.print({ queue, partitionKey, outcome }, () => `Key ${neutral(partitionKey)} ${sentences[outcome]}\n`)
      return outcome === 'unblocked' ? 0 : 1
    }),
}

export const settle: Command = {
  name: 'settle',
  takes: '<id> <effect>',
  help: 'record whether an effect of unknown outcome happened; needs --yes',
  count: [2, 2],
  options: {
    happened: { help: 'it happened: the next attempt does not repeat it' },
    'not-happened': { help: 'it did not: the next attempt repeats it' },
    result: { value: 'json', help: 'with --happened: what the effect returned' },
    yes: YES,
    by: BY,
  },
  run: (call) =>
    call.withDatabase(async (database) => {
      const [jobId, effect] = [call.idAt(0), call.args[1]!]
      const finding = findingOf(call)
      const { leasehold } = database
      if ((await leasehold.get(jobId)) === undefined) throw notFound(jobId, database.name)
      const names = (await leasehold.effects(jobId)).map(({ name }) => name)
      if (!names.includes(effect)) {
        const known = names.length === 0 ? 'it has none' : `it has ${names.slice(0, 20).join(', ')}`
        throw new Failure(`job ${jobId} has no effect ${quoted(effect)}; ${known}`)
      }
      call.confirm(`record that ${quoted(effect)} ${finding.happened ? 'happened' : 'did not happen'}`, database)
      const outcome = await leasehold.settleEffect(jobId, effect, { ...finding, ...byOf(call) })
      const sentences = {
        settled: `settled. Return the job to its queue: leasehold retry ${jobId}`,
        processing: 'a worker holds the job, and records the effect itself; nothing was changed.',
        nothing_to_settle: 'its outcome is known already; nothing was changed.',
      }
      call.print({ jobId, effect, outcome }, () => `Effect ${neutral(effect)}: ${sentences[outcome]}\n`)
      return outcome === 'settled' ? 0 : 1
    }),
}

function findingOf(call: Call): EffectFinding {
  const [happened, result] = [call.flag('happened'), call.text('result')]
  if (happened === call.flag('not-happened')) {
    throw new Failure('write: leasehold settle <id> <effect> --happened, or --not-happened')
  }
  if (!happened && result !== undefined) throw new Failure('--result goes with --happened')
  if (!happened) return { happened: false }
  return result === undefined ? { happened: true } : { happened: true, result: parseJson(result) }
}
