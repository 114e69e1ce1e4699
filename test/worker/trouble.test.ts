// Trouble with the database is in the log while it lasts, and so is its end.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { behindProxy } from '../support/behind-proxy.ts'
import { until } from '../support/until.ts'
import { next, type Scene } from '../support/worker.ts'

const task = kind<number>('task')

/** What the log says of troubles. */
function troubles({ log }: Pick<Scene, 'log'>) {
  const says = (text: string) => log.some(({ level, message }) => level === 'warn' && message.startsWith(text))
  return {
    began: (doing: string) => says(`trouble with the database: ${doing}; trying again`),
    areOver: (doing: string) => says(`${doing} works again after `),
  }
}

test('the log says what is in trouble, and that it works again', async (t) => {
  const setting = await behindProxy(t)
  const { far, proxy, worker } = setting
  const { began, areOver } = troubles(setting)
  proxy.refuse()
  const busy = worker([handle(task, () => {})], {}, far)
  await until('it is said', () => began('connecting'))
  proxy.accept()
  await until('it is over', () => areOver('connecting'))
  await next(busy, 'wakeup')
  proxy.refuse()
  proxy.cut()
  await until('it is said', () => began('claiming') && began('listening'))
  assert.ok(!areOver('claiming') && !areOver('listening'))
  proxy.accept()
  await until('it is over', () => areOver('claiming') && areOver('listening'))
})

test('that is said also of a connection which was lost and made anew at once', async (t) => {
  const setting = await behindProxy(t)
  const { began, areOver } = troubles(setting)
  await next(setting.worker([handle(task, () => {})], {}, setting.far), 'wakeup')
  setting.proxy.cut()
  await until('it is said', () => began('listening'))
  await until('it is over', () => areOver('listening'))
})
