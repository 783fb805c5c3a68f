/** The live queries of a session. */

import type { Core } from "../wasm/core.js";
import { LiveQuery, type LiveQuestion } from "./live-query.js";
import type { Stop } from "./view.js";

interface Open {
  readonly className: string;
  /** The query, as JSON. */
  readonly text: string;
  readonly query: Pick<LiveQuery<unknown>, "changed" | "end" | "isReading">;
}

/** The live queries of a session, each asked again when a document of its class changes. */
export class LiveQueries {
  readonly #core: Pick<Core, "watch">;
  readonly #onError: (error: unknown) => void;
  readonly #open = new Set<Open>();

  constructor(core: Pick<Core, "watch">, onError: (error: unknown) => void) {
    this.#core = core;
    this.#onError = onError;
  }

  /** Begins a live query. Throws if the core cannot answer the query. */
  start<T>(className: string, text: string, question: Omit<LiveQuestion<T>, "onError">): Stop {
    this.#core.watch(className, text);
    const query = new LiveQuery<T>({ ...question, onError: this.#onError });
    const open = { className, text, query };
    this.#open.add(open);
    return () => {
      if (!this.#open.delete(open)) return;
      query.end();
      this.#release(className);
    };
  }

  /** Whether one of them is about to ask or to call back. */
  get areReading(): boolean {
    return [...this.#open].some(({ query }) => query.isReading);
  }

  /** The core reports that these defs changed. */
  changed(defs: readonly string[]): void {
    if (this.#open.size === 0) return;
    const classes = new Set(defs.map((def) => /^[^/@]*/.exec(def)?.[0]));
    for (const open of this.#open) if (classes.has(open.className)) open.query.changed();
  }

  /** Another core is in use: it knows no live query yet, and has other ids. */
  recovered(): void {
    for (const open of this.#open) {
      try {
        this.#core.watch(open.className, open.text);
      } catch {
        // The subscription that it is within has ended: its next answer is empty.
      }
      open.query.changed();
    }
  }

  /** The session is over. */
  endAll(): void {
    for (const open of this.#open) open.query.end();
    this.#open.clear();
  }

  #release(className: string): void {
    try {
      this.#core.watch(className);
    } catch {
      // The core has just died, and with it all that it kept for the query.
    }
  }
}
