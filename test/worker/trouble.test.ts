// Problems with the database are logged while they last, and so is their end.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { behindProxy } from '../support/behind-proxy.ts'
import { until } from '../support/until.ts'
import { next, type Scene } from '../support/worker.ts'

const task = kind<number>('task')

/** The log lines about problems. */
function troubles({ log }: Pick<Scene, 'log'>) {
  const says = (text: string) => log.some(({ level, message }) => level === 'warn' && message.startsWith(text))
  return {
    began: (doing: string) => says(`trouble with the database: ${doing}; trying again`),
    areOver: (doing: string) => says(`${doing} works again after `),
  }
}

test('the log names the problem, and its end', async (t) => {
  const setting = await behindProxy(t)
  const { far, proxy, worker } = setting
  const { began, areOver } = troubles(setting)
  proxy.refuse()
  const busy = worker([handle(task, () => {})], {}, far)
  await until('it is logged', () => began('connecting'))
  proxy.accept()
  await until('it is over', () => areOver('connecting'))
  await next(busy, 'wakeup')
  proxy.refuse()
  proxy.cut()
  await until('it is logged', () => began('claiming') && began('listening'))
  assert.ok(!areOver('claiming') && !areOver('listening'))
  proxy.accept()
  await until('it is over', () => areOver('claiming') && areOver('listening'))
})

test('the end is also logged for a connection that was lost and reopened at once', async (t) => {
  const setting = await behindProxy(t)
  const { began, areOver } = troubles(setting)
  await next(setting.worker([handle(task, () => {})], {}, setting.far), 'wakeup')
  setting.proxy.cut()
  await until('it is logged', () => began('listening'))
  await until('it is over', () => areOver('listening'))
})

test('the end is also logged for a failure on the way to being notified', async (t) => {
  const setting = await behindProxy(t)
  const { began, areOver } = troubles(setting)
  const cut = setting.proxy.cutReplies('busy.clear')
  setting.worker([handle(task, () => {})], { poll: '1m' }, setting.far)
  await cut
  await until('it is logged', () => began('claiming'))
  await until('it is over', () => areOver('claiming'))
})
