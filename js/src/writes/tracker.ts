/** Connects the news of the core with the promises of the operations that the application issued. */

import type { CoreOperation, OperationNews } from "../wasm/core.js";
import { Deferred } from "../base/deferred.js";
import { EscaleError, raise } from "../base/errors.js";
import type { Accepted, Operation } from "./operation-types.js";
import { revive, type Value } from "../schema/raw.js";

interface Tracked {
  isSaved: boolean;
  saved: Deferred<"device" | "memory">;
  accepted: Deferred<Accepted>;
}

/** Tracks the operations issued by this session to their end, across the operations that replace them. */
export class Tracker {
  readonly #byId = new Map<string, Tracked[]>();
  /** Replaced operations, each with its replacement: the application may still name the old ones. */
  readonly #replaced = new Map<string, string>();
  /** News that arrived while an operation was being issued, before its id was known. */
  #early: OperationNews[] = [];
  #issuing = 0;

  /** Issues an operation by that call of the core. If `old` is given, it replaces that operation. */
  issue(call: () => string, old?: string): Operation {
    let id: string;
    this.#issuing++;
    try {
      id = call();
    } finally {
      this.#issuing--;
    }
    const tracked: Tracked = { isSaved: false, saved: new Deferred(), accepted: new Deferred() };
    if (old !== undefined) this.#replace(old, id);
    this.#byId.set(id, [...this.#of(id), tracked]);
    const early = this.#early;
    this.#early = [];
    for (const news of early) this.take(news);
    return Object.freeze({ id, saved: tracked.saved.promise, accepted: tracked.accepted.promise });
  }

  /** The operation that has replaced this one by now, or this one. */
  current(id: string): string {
    let current = id;
    for (let next = this.#replaced.get(id); next !== undefined; next = this.#replaced.get(next)) current = next;
    return current;
  }

  /** Takes news of the core. */
  take(news: OperationNews): void {
    if (!this.#byId.has(news.id) && this.#issuing > 0) {
      this.#early.push(news);
      return;
    }
    switch (news.kind) {
      case "saved":
        for (const tracked of this.#of(news.id)) {
          tracked.isSaved = true;
          tracked.saved.resolve(news.where);
        }
        break;
      case "accepted":
        for (const { accepted } of this.#over(news.id)) accepted.resolve(acceptedOf(news));
        break;
      case "failed":
        this.fail(news.id, new EscaleError(news.error));
        break;
      case "amended":
        this.#replace(news.id, news.by);
        break;
      case "refused":
        // It stays: it may not be saved yet.
        for (const { accepted } of this.#of(news.id)) accepted.reject(new EscaleError(news.error));
        break;
    }
  }

  /** An operation is over, and was not executed. Nothing more of it is saved. */
  fail(id: string, error: EscaleError): void {
    for (const tracked of this.#over(id)) fail(tracked, error);
  }

  /**
   * Another core is in use, with these operations. An operation that was saved and is not among them has finished with
   * an unknown result; one that was not saved is lost.
   */
  recovered(operations: readonly CoreOperation[]): void {
    const listed = new Map(operations.map((operation) => [operation.id, operation]));
    for (const [id, all] of [...this.#byId]) {
      const operation = listed.get(id);
      if (operation) {
        this.take({ kind: "saved", id, where: "device" });
        // The news of the refusal may have been lost with the other core.
        if (operation.error) this.take({ kind: "refused", id, error: operation.error });
        continue;
      }
      this.#byId.delete(id);
      for (const tracked of all) {
        const error = tracked.isSaved
          ? raise("forgotten", "it was saved and is over; the wasm stopped before it told how")
          : raise("panicked", "the wasm stopped on a bug before it was saved");
        fail(tracked, error);
      }
    }
  }

  /** The session is over: no more news will arrive. */
  end(): void {
    const error = raise("closed", "the session ended before the server had accepted it");
    for (const tracked of [...this.#byId.values()].flat()) fail(tracked, error);
    this.#byId.clear();
    this.#replaced.clear();
  }

  #of(id: string): Tracked[] {
    return this.#byId.get(id) ?? [];
  }

  #over(id: string): Tracked[] {
    const tracked = this.#of(id);
    this.#byId.delete(id);
    return tracked;
  }

  #replace(old: string, by: string): void {
    if (old === by || this.#replaced.get(old) === by) return;
    this.#replaced.set(old, by);
    const tracked = [...this.#over(old), ...this.#of(by)];
    if (tracked.length > 0) this.#byId.set(by, tracked);
  }
}

function fail({ saved, accepted }: Tracked, error: EscaleError): void {
  saved.reject(error);
  accepted.reject(error);
}

function acceptedOf({ v, value }: { v: number; value?: unknown }): Accepted {
  return Object.freeze(value === undefined ? { v } : { v, value: revive(value) as Value });
}
