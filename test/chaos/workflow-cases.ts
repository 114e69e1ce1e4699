// What may go wrong in a chaos run of workflows, as changes of a correct history.
import type { Cases } from './checker-suite.ts'
import type { Draft } from './workflow-history.ts'

function drop<Item>(from: Item[], isMeant: (item: Item) => boolean): void {
  from.splice(from.findIndex(isMeant), 1)
}

export const CASES: Cases<Draft> = {
  'a run is not there': [
    (d) => drop(d.runs, ({ run }) => run === 'c'),
    /^every run whose start.*: c: there is no such/,
  ],
  'a run has another end': [
    (d) => Object.assign(d.run('a'), { status: 'dead_letter', error: { message: 'planned' } }),
    /^every run whose start.*: a: dead_letter, expected completed/,
  ],
  'a run fails for another reason': [
    (d) => Object.assign(d.run('b'), { error: { message: 'WORKFLOW_CHANGED' } }),
    /^every run whose start.*: b: a dead letter for/,
  ],
  'a run is cancelled that no operator cancelled': [
    (d) => drop(d.lines, ({ e }) => e === 'asks'),
    /^every run whose start.*: c: cancelled for "operator"/,
  ],
  'a run that waits for ever completes': [
    (d) => Object.assign(d.run('c'), { status: 'completed' }),
    /^every run whose start.*: c: completed, expected cancelled/,
  ],
  'a run has another result': [
    (d) => Object.assign(d.run('a/child8'), { result: ['a/child8/step9.2'] }),
    /^a completed run has exactly.*: a\/child8: returned/,
  ],
  'a run has the result of another winner': [
    (d) => Object.assign(d.run('a').result as unknown[], { 4: ['any5 late', 'any6 late'] }),
    /^a completed run has exactly.*: a: returned/,
  ],
  'a start that was rolled back leaves a run': [
    (d) => d.runs.push({ ...d.run('c'), run: 'undone', job: '9' }),
    /^a start that was rolled back.*: undone: cancelled/,
  ],
  'a start that was rolled back is executed': [
    (d) => d.slice('undone', 7_000),
    /^a start that was rolled back.*: undone: it was executed/,
  ],
  'a second start makes a second run': [
    (d) => d.note('starter-4.4', 5_000, 'started', { w: 'a', job: '99', outcome: 'created' }),
    /^a second start of an id.*: a: started as the jobs 1, 99/,
  ],
  'another input is accepted': [
    (d) => d.note('starter-4.4', 5_000, 'other', { w: 'b', outcome: 'existing' }),
    /^a second start of an id.*: b: another input: existing/,
  ],
  'a step is not undone': [
    (d) => drop(d.steps, ({ type, name }) => type === 'compensation' && name === 'step2'),
    /^what was done is undone.*: b: undone: step3#2,step3, expected: step3#2,step3,step2/,
  ],
  'a step in front of the commit is undone': [
    (d) => d.done('b', 'undo', 'step1', 6_200),
    /^what was done is undone.*: b: undone: step3#2,step3,step2,step1/,
  ],
  'steps are undone in another order': [
    (d) => {
      for (const line of d.lines.filter(({ type, name }) => type === 'undo' && name === 'step2')) line.at -= 100
    },
    /^what was done is undone.*: b: undone as step2,step3#2,step3/,
  ],
  'a tx step happens twice': [
    (d) => d.effects.push({ ...d.effects[0]!, execution: 'worker-1.1/9' }),
    /^a tx step happens once.*: a: a tx tx2.1: 2 effects/,
  ],
  'a tx step that is not on record has its effect': [
    (d) => d.effects.push({ run: 'c', name: 'tx9', i: 1, execution: 'worker-1.1/9' }),
    /^a tx step happens once.*: c tx tx9.1: an effect, and no record/,
  ],
  'a step on record executes again': [
    (d) => {
      d.slice('a', 5_000, 'worker-2.2')
      d.execute('a', 'step', 'step1', 5_010, { p: 'worker-2.2', i: 2 })
    },
    /^a step that is on record does not.*: a: a step step1.2 was on record/,
  ],
  'a compensation on record executes again': [
    (d) => d.execute('c', 'undo', 'step1', 4_250),
    /^a step that is on record does not.*: c: c undo step1.1 was on record/,
  ],
  'a step executes twice without a fault': [
    (d) => d.execute('a', 'step', 'step1', 1_005),
    /^a step executes again only.*: a: a step step1.1 began again/,
  ],
  'another slice executes a step without a fault': [
    (d) => drop(d.lines, ({ e }) => e === 'struck'),
    /^a step executes again only.*: b: b step step3.2 began again/,
  ],
  'a record has another result': [
    (d) => Object.assign(d.step('a', 'step1', 2), { result: d.step('a', 'step1', 1).result }),
    /^a record has the known result.*: a: a step step1.2: its result is/,
  ],
  'a step is recorded before its work is done': [
    (d) => drop(d.lines, ({ e, type }) => e === 'ends' && type === 'step'),
    /^a record has the known result.*: a: a step step1.1: .* had not ended/,
  ],
  'a step is recorded by another worker': [
    (d) => Object.assign(d.step('a/child8', 'step9'), { worker: 'worker-2.2' }),
    /^a record has the known result.*: a\/child8: .* is recorded by worker-2.2/,
  ],
  'an attempt is skipped': [
    (d) => Object.assign(d.steps.find(({ name, state }) => name === 'step2' && state === 'recorded')!, { attempt: 3 }),
    /^a record has the known result.*: b: b step step2.1: attempt 3 after 1 failures/,
  ],
  'two workers record under one claim': [
    (d) => Object.assign(d.step('a', 'tx2'), { workerId: 'id-2', worker: 'worker-2.2' }),
    /^one worker at a time.*: a: step tx2 of claim 10 is by worker-2.2/,
  ],
  'a stale worker records behind its successor': [
    (d) => Object.assign(d.steps.find(({ type, name }) => type === 'compensation' && name === 'step2')!, { gen: 8 }),
    /^one worker at a time.*: b: compensation step2 of claim 8 stands behind/,
  ],
  'a record arrives when another worker has the run': [
    (d) => d.slice('b', 3_060, 'worker-3.3'),
    /^one worker at a time.*: b: step step2 of claim 10 is by worker-0.0\/.*, and the run had another worker/,
  ],
  'a completed run lacks a record': [
    (d) => drop(d.steps, ({ name, nth }) => name === 'step1' && nth === 2),
    /^timelines are whole.*: a: on record are/,
  ],
  'a step has two ends': [
    (d) => d.record('c', 'step', 'step1', 4_300),
    /^timelines are whole.*: c: step step1.1 has a record behind its end/,
  ],
  'an attempt is on record twice': [
    (d) => Object.assign(d.steps.find(({ state }) => state === 'retrying')!, { attempt: 2 }),
    /^timelines are whole.*: b: step step2.1 has the attempts 2/,
  ],
  'a signal is received twice': [
    (d) => Object.assign(d.step('a', 'signal3', 2), { signal: '21' }),
    /^a signal is received once.*: a: signal3 \(21\) was received by 2 steps/,
  ],
  'a signal is gone': [
    (d) => Object.assign(d.signals.find(({ id }) => id === '24')!, { consumed: true }),
    /^a signal is received once.*: a: any5 \(24\) is gone without a record/,
  ],
  'a received signal stays': [
    (d) => Object.assign(d.signals.find(({ id }) => id === '25')!, { consumed: false }),
    /^a signal is received once.*: a: job 10 \(25\) may be received again/,
  ],
  'a later signal is received first': [
    (d) => {
      Object.assign(d.step('a', 'signal3', 1), { signal: '22' })
      Object.assign(d.step('a', 'signal3', 2), { signal: '21' })
    },
    /^signals of a name are received in.*: a: signal3 was received/,
  ],
  'a signal that was rolled back is there': [
    (d) => d.signals.push({ id: '30', job: '1', name: 'signal3', payload: { i: -1 }, consumed: false }),
    /^a signal is there once.*: a: signal3.-1 is there 1 times, expected 0/,
  ],
  'a known key is stored': [
    (d) => d.signals.push({ id: '30', job: '1', name: 'signal3', payload: { i: 1 }, consumed: false }),
    /^a signal is there once.*: a: signal3.1 is there 2 times, expected 1/,
  ],
  'a known key is accepted': [
    (d) => Object.assign(d.lines.find(({ outcome }) => outcome === 'duplicate')!, { outcome: 'sent' }),
    /^a signal is there once.*: a: signal3.1 was sent again/,
  ],
  'a signal without a key is there more often than it was sent': [
    (d) => d.sent.pop(),
    /^a signal is there once.*: a: any5.1 is there 2 times, expected 1/,
  ],
  'the code gets another winner': [
    (d) => Object.assign(d.lines.findLast(({ e }) => e === 'first')!, { winner: 'any6 came' }),
    /^the first of several stays.*: a: any6: any6 late is on record, and the code got any6 came/,
  ],
  'a signal wins that did not come': [
    (d) => Object.assign(d.step('a', 'any5 came|any5 late'), { signal: null }),
    /^the first of several stays.*: a: any5: any5 came cannot be/,
  ],
  'a time wins that has not come': [
    (d) => {
      for (const step of d.steps.filter(({ type }) => type === 'sleep')) if (step.nth > 1) step.wakeAt = 9_000
      Object.assign(d.step('a', 'sleep'), { wakeAt: 9_000 })
    },
    /^the first of several stays.*: a: any6: any6 late cannot be/,
  ],
  'a sleep ends early for the code': [
    (d) => Object.assign(d.lines.find(({ e }) => e === 'slept')!, { at: 1_400 }),
    /^a sleep ends not before.*: a: a sleep4.1 took 290 of 500 ms/,
  ],
  'a sleep ends early on record': [
    (d) =>
      Object.assign(d.steps.find(({ type, state }) => type === 'sleep' && state === 'recorded')!, {
        recordedAt: 1_500,
      }),
    /^a sleep ends not before.*: a: sleep 1 ended before its time/,
  ],
  'a job is started twice': [
    (d) => d.jobs.push({ ...d.jobs[0]!, job: '12' }),
    /^a job or a run is started once.*: a: a job7.1: 2 jobs/,
  ],
  'a job is started that is not on record': [
    (d) => d.jobs.push({ ...d.jobs[0]!, job: '12', i: 2 }),
    /^a job or a run is started once.*: a job7.2: a job that no run/,
  ],
  'a child is started that is not on record': [
    (d) => d.runs.push({ ...d.run('a/child8'), run: 'c/child3' }),
    /^a job or a run is started once.*: c\/child3: a run that no other/,
  ],
  'something is left in the end': [
    (d) => d.note('harness', 59_000, 'stuck', { what: 'a pending waiting' }),
    /^everything came to its end in time: a pending waiting/,
  ],
  'a process ends by itself': [
    (d) => d.note('harness', 9_000, 'end', { who: 'worker-2.9', code: 1, signal: null, tookMs: 0, stderr: 'oh' }),
    /^processes end only when.*: worker-2.9 ended by itself/,
  ],
  'a process does not leave in time': [
    (d) => Object.assign(d.lines.at(-1)!, { tookMs: 30_000 }),
    /^processes end only when.*: worker-0.0 left after 30000 ms/,
  ],
}
