/** The slow service that an evaluation calls. It replies to none before all have called, and by then all have read. */
import { startProvider } from '../../tools/provider.ts'
import { Gate } from '../gate.ts'
import { EVALUATIONS } from './scale.ts'

export interface Catalogue {
  readonly url: string
  /** Calls from now on belong to this round. */
  nextRound(): Round
  stop(): Promise<void>
}

interface Round {
  /** How many evaluations are running, when all are. */
  readonly allHaveAsked: Promise<number>
  answer(): void
}

export async function startCatalogue(): Promise<Catalogue> {
  let asked = new Gate(EVALUATIONS)
  let answered = new Gate()
  let underWay = 0
  const provider = await startProvider({
    answerAfter: () => {
      underWay++
      asked.knock()
      return answered.opened
    },
  })
  return {
    url: provider.url,
    nextRound: () => {
      asked = new Gate(EVALUATIONS)
      answered = new Gate()
      underWay = 0
      const { opened } = asked
      const answering = answered
      return { allHaveAsked: opened.then(() => underWay), answer: () => answering.knock() }
    },
    stop: provider.stop,
  }
}
