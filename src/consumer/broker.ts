/** What a consumer needs of a broker. SQS is the first; each has its own folder and imports its own client. */
import type { Refusal } from '../runtime/batcher.ts'
import type { HeldMessage } from './held.ts'

export interface Hiding {
  readonly receipt: string
  readonly seconds: number
}

export interface Broker {
  /** For people. */
  readonly name: string
  /** Entries in a request at most. */
  readonly batch: number
  /** How long a request may take. */
  readonly answerMs: number
  /** Where messages go that can never be handled; undefined: nowhere, so they are redelivered. */
  readonly deadLetters: string | undefined
  /** The option that names it. */
  readonly deadLettersOption: string
  /** Deletes deliveries, and returns which were refused. It is safe to repeat. */
  acknowledge(receipts: readonly string[]): Promise<readonly Refusal[]>
  /** Hides held messages from other consumers for so long from now on. Returns which were refused. */
  extend(entries: readonly Hiding[], withinMs: number, signal: AbortSignal): Promise<readonly Refusal[]>
  /** Returns messages: other consumers can receive them after so long, 0: at once. Returns which were refused. */
  release(entries: readonly Hiding[]): Promise<readonly Refusal[]>
  /** For how many seconds a message can be hidden from now on, and at most as long as it is wanted. */
  secondsFor(held: HeldMessage, now: number, wantedMs: number): number
  /** Sends a message to the dead letters. */
  bury(held: HeldMessage, reason: string): Promise<void>
  /** Whether a request was refused for something that may be wrong with one entry only. */
  isAboutOneEntry(error: unknown): boolean
  /** The reply was lost: the broker may have done what was asked. */
  mayHaveBeenDone(error: unknown): boolean
}

/** How messages arrive. */
export interface Intake {
  /** There may be room for more. */
  more(): void
  /** Receives no more. Resolves when no reply can come any more. */
  stop(): Promise<void>
  /** undefined: not known. While the database is away, messages would only use up their deliveries. */
  databaseIs(there: boolean | undefined): void
  /** For how long some receive may still bring several messages at once. */
  severalForMs(): number
}

export interface IntakeParts {
  /** How many could be started now. */
  readonly room: () => number
  /** Whether there may be more room any moment. */
  readonly isMoreToCome: () => boolean
  /** Whether messages that come with another one would have to be returned. */
  readonly oneAtATime: () => boolean
  /** Resolves when they take up room. */
  readonly onReceived: (received: readonly HeldMessage[]) => Promise<void>
  readonly onAnswered: () => void
  readonly onProblem: (error: unknown) => void
  /** The first reply of the broker is a refusal: run() rejects with this error. */
  readonly onRefused: (error: Error) => void
}
