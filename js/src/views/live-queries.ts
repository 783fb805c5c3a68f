/** The live queries of a session. */

import type { Core } from "../wasm/core.js";
import { classOf } from "./def.js";
import { LiveQuery, type LiveQuestion } from "./live-query.js";
import type { Stop } from "./view.js";

/** A query, or several over different classes, asked again together. */
interface Asked {
  readonly isReading: boolean;
  /** Whether changes of these defs concern it, although they are of another class. */
  minds?(defs: readonly string[]): boolean;
  changed(): void;
  /** Whether all documents are there that it is about may have changed. */
  heard?(): void;
  end(): void;
}

interface Open {
  readonly classNames: readonly string[];
  /** The query of each class, as JSON. */
  readonly text: string;
  readonly query: Asked;
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
    return this.follow([className], text, () => new LiveQuery<T>({ ...question, onError: this.#onError }));
  }

  /** Tells a query of changes of these classes. */
  follow(classNames: readonly string[], text: string, make: () => Asked): Stop {
    for (const className of classNames) this.#core.watch(className, text);
    const query = make();
    const open = { classNames, text, query };
    this.#open.add(open);
    return () => {
      if (!this.#open.delete(open)) return;
      query.end();
      for (const className of classNames) this.#release(className);
    };
  }

  /** Whether one of them is about to ask or to call back. */
  get areReading(): boolean {
    return [...this.#open].some(({ query }) => query.isReading);
  }

  /** The core reports that these defs changed. */
  changed(defs: readonly string[]): void {
    if (this.#open.size === 0) return;
    const classes = new Set(defs.map(classOf));
    for (const open of this.#open) {
      if (open.classNames.some((name) => classes.has(name)) || open.query.minds?.(defs)) open.query.changed();
    }
  }

  /** Refusals came or went, or a load ended. */
  heard(): void {
    for (const { query } of this.#open) query.heard?.();
  }

  /** Another core is in use: it knows no live query yet, and has other ids. */
  recovered(): void {
    for (const open of this.#open) {
      try {
        for (const className of open.classNames) this.#core.watch(className, open.text);
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
