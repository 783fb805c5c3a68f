/** `session.refused`: the list of operations that the server refused for good, and the decisions about them. */

import type { CoreOperation } from "../wasm/core.js";
import { EscaleError, raise } from "../base/errors.js";
import { documentOf } from "../schema/migrate.js";
import type { Operation, OperationArgs, Refused, RefusedOperation, Theirs } from "./operation-types.js";
import { callSafely, report } from "../base/report.js";
import { checkCallback } from "../schema/query.js";
import type { Schema } from "../schema/schema.js";
import { freezeDeep, reviveMap } from "../schema/raw.js";

/** The possible decisions about a refused operation. */
export interface Decisions {
  amend(id: string, args: OperationArgs | undefined): Operation;
  discard(id: string, error: EscaleError): void;
}

const NONE: readonly never[] = Object.freeze([]);

/** The refused operations of a session. The list is read from the core only on demand. */
export class LiveRefused implements Refused {
  readonly #read: () => CoreOperation[];
  readonly #schema: Schema;
  readonly #decisions: Decisions;
  readonly #callbacks = new Set<{ call: (refused: readonly RefusedOperation[]) => unknown }>();
  #value: readonly RefusedOperation[] = NONE;
  /** The list that the callbacks received last. */
  #told: readonly RefusedOperation[] = NONE;
  #isStale = true;
  #isScheduled = false;
  #isOver = false;

  /** `read` gives the unfinished operations; it may throw after the session has ended. */
  constructor(read: () => CoreOperation[], schema: Schema, decisions: Decisions) {
    this.#read = read;
    this.#schema = schema;
    this.#decisions = decisions;
  }

  get value(): readonly RefusedOperation[] {
    if (this.#isStale && !this.#isOver) this.#refresh();
    return this.#value;
  }

  subscribe(callback: (refused: readonly RefusedOperation[]) => unknown): () => void {
    checkCallback("refused.subscribe", callback);
    const entry = { call: callback };
    const now = this.value;
    // Earlier subscribers are notified in their turn.
    if (this.#callbacks.size === 0) this.#told = now;
    this.#callbacks.add(entry);
    callSafely(callback, now);
    return () => {
      this.#callbacks.delete(entry);
    };
  }

  /** The list may have changed. Many changes cause one read, after the core's call is over. */
  changed(): void {
    this.#isStale = true;
    if (this.#isScheduled || this.#isOver) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#isStale = true;
      this.#tell();
    });
  }

  /** Whether the list, as last read, contains an operation. */
  has(id: string): boolean {
    return this.#value.some((entry) => entry.id === id);
  }

  /** The session is over. Refused operations are shown again at the next opening. */
  end(): void {
    this.#isOver = true;
    this.#value = this.#told = NONE;
    this.#callbacks.clear();
  }

  #tell(): void {
    if (this.#callbacks.size === 0) return;
    let value;
    try {
      value = this.value;
    } catch {
      // The session is closing: the next opening shows the list.
      return;
    }
    if (this.#isOver || value === this.#told) return;
    this.#told = value;
    for (const entry of [...this.#callbacks]) {
      if (this.#callbacks.has(entry)) callSafely(entry.call, value);
    }
  }

  #refresh(): void {
    this.#isStale = false;
    const known = new Map(this.#value.map((entry) => [entry.id, entry]));
    const found = this.#read().filter(({ state }) => state === "refused");
    const value = found.map((operation) => known.get(operation.id) ?? this.#entry(operation));
    const same = value.length === this.#value.length && value.every((entry, i) => entry === this.#value[i]);
    if (!same) this.#value = Object.freeze(value);
  }

  #entry({ id, name, args, at, error, theirs }: CoreOperation): RefusedOperation {
    const why = error ? new EscaleError(error) : raise("internal", "the server gave no reason");
    return Object.freeze({
      id,
      name,
      args: freezeDeep(reviveMap(args)) as OperationArgs,
      at,
      error: why,
      ...this.#theirs(theirs),
      amend: (next: OperationArgs) => this.#decisions.amend(id, next),
      retry: () => this.#decisions.amend(id, undefined),
      discard: () => this.#decisions.discard(id, why),
    });
  }

  /** A document that fails to migrate is left out: the decision does not need it. */
  #theirs(theirs: CoreOperation["theirs"]): Pick<RefusedOperation, "theirs" | "base" | "mine"> {
    if (!theirs) return {};
    const { class: className, v, data, own } = theirs;
    const read = (data: Record<string, unknown> | null): Theirs["doc"] =>
      data && documentOf(this.#schema, className, reviveMap(data));
    try {
      const [base, mine] = own?.map(read) ?? [];
      return { theirs: Object.freeze({ className, v, doc: read(data) }), ...(own && { base, mine }) };
    } catch (error) {
      report(error);
      return {};
    }
  }
}
