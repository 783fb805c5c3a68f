/** A live query: asked again after each burst of changes of its class. */

import { toEscaleError } from "../base/errors.js";
import { callSafely } from "../base/report.js";
import type { QueryState } from "../schema/query.js";
import { isSameState } from "./view.js";

/** How a live query reads and compares its results. */
export interface LiveQuestion<T> {
  ask(): Promise<T>;
  /** Whether all documents are there that the query is about. */
  state(): QueryState;
  /** Whether two results are the same for the application. */
  isSame(before: T, now: T): boolean;
  callback: (result: T, state: QueryState) => unknown;
  onError: (error: unknown) => void;
}

/**
 * A query with a callback. At most one question is under way at a time; all changes meanwhile cause exactly one more.
 */
export class LiveQuery<T> {
  readonly #question: LiveQuestion<T>;
  #last: { result: T; state: QueryState } | undefined;
  #isDirty = true;
  #isAsking = false;
  /** The state may have changed since it was asked for. */
  #isHeard = false;
  #isScheduled = false;
  #isOver = false;

  constructor(question: LiveQuestion<T>) {
    this.#question = question;
    this.#schedule();
  }

  /** Whether it is about to ask or to call back. */
  get isReading(): boolean {
    return this.#isScheduled || this.#isAsking;
  }

  /** A document of the class changed. */
  changed(): void {
    this.#isDirty = true;
    this.#schedule();
  }

  /** Refusals came or went, or a load ended: the same result may now be complete, or no longer. */
  heard(): void {
    this.#isHeard = this.#isDirty || this.#isAsking;
    if (this.#last && !this.#isHeard) this.#tell(this.#last.result, this.#question.state());
  }

  /** No more callbacks. */
  end(): void {
    this.#isOver = true;
    this.#last = undefined;
  }

  /** Schedules one question for a burst of changes, after the core's call is over. */
  #schedule(): void {
    if (this.#isScheduled || this.#isAsking || this.#isOver) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      void this.#refresh();
    });
  }

  async #refresh(): Promise<void> {
    this.#isAsking = true;
    try {
      while (this.#isDirty && !this.#isOver) {
        this.#isDirty = false;
        // Documents that come during the question may be missing in the answer, however complete the class is by then.
        const state = this.#question.state();
        this.#tell(await this.#question.ask(), state);
      }
    } catch (error) {
      // The next change asks again. Until then nobody knows the result.
      this.#last = undefined;
      if (!this.#isOver) this.#question.onError(error);
    } finally {
      this.#isAsking = false;
      if (this.#isDirty) this.#schedule();
      else if (this.#isHeard) this.heard();
    }
  }

  #tell(result: T, state: QueryState): void {
    if (this.#isOver) return;
    const { callback } = this.#question;
    const last = this.#last;
    if (last && this.#question.isSame(last.result, result) && isSameState(last.state, state)) return;
    this.#last = { result, state };
    callSafely(callback, result, state);
  }
}

/** Whether two lists hold the same documents, which are the same objects until they change. */
export const isSameList = (before: readonly object[], now: readonly object[]): boolean =>
  before.length === now.length && before.every((document, place) => document === now[place]);

/** The answer of a live query; none if the core refuses it later, because the subscription named by `in` has ended. */
export async function orNone<T>(answer: Promise<T>, none: T): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (toEscaleError(error).code === "bad_option") return none;
    throw error;
  }
}
