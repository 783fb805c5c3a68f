/** Runs an application's optimistic part over the documents that the core knows, and collects its changes. */

import type { KnownDocument, OptimisticOutcome } from "../wasm/core.js";
import { documentOf, isOlder } from "../schema/migrate.js";
import type { Transaction } from "./operation-types.js";
import type { Schema } from "../schema/schema.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import { revive, reviveMap, type Raw } from "../schema/raw.js";
import { checkKey, classOf, encodeChanges, encodeDocument, keyOf, patched } from "../schema/writing.js";

type Change = NonNullable<OptimisticOutcome["changes"]>[number];

/**
 * Thrown through an optimistic part that reads an unknown document. The core runs the part again with that document.
 */
class Missing extends Error {}

/** Runs an optimistic part over the documents known so far. */
export function runOptimistic(
  schema: Schema,
  known: readonly KnownDocument[],
  part: (tx: Transaction<SchemaDeclaration>) => unknown,
): OptimisticOutcome {
  const run = new OptimisticRun(schema, known);
  try {
    part(run.transaction());
  } catch (error) {
    // Code after the missing read may have failed for that reason, and the part may catch `Missing`: so `wants`
    // decides.
    if (run.wants.length === 0) throw error;
  }
  return run.wants.length > 0 ? { wants: run.wants } : { changes: run.changes };
}

class OptimisticRun {
  readonly changes: Change[] = [];
  readonly wants: [className: string, key: string[]][] = [];
  readonly #schema: Schema;
  /** Data in its stored form, by class and key: the known documents with the changes so far. */
  readonly #states = new Map<string, Raw | null>();

  constructor(schema: Schema, known: readonly KnownDocument[]) {
    this.#schema = schema;
    for (const { class: className, key, state } of known) this.#states.set(nameOf(className, key), state);
  }

  transaction(): Transaction<SchemaDeclaration> {
    return Object.freeze({
      get: (className: string, key: unknown) => this.#get(className, checkKey(key)) as never,
      put: (className: string, data: unknown) => this.#put(className, encodeDocument(this.#schema, className, data)),
      patch: (className: string, key: unknown, changes: unknown) => this.#patch(className, checkKey(key), changes),
      delete: (className: string, key: unknown) => this.#delete(className, checkKey(key)),
    });
  }

  #get(className: string, key: string[]): Raw | undefined {
    const state = this.#state(className, key);
    return state === null ? undefined : documentOf(this.#schema, className, reviveMap(state));
  }

  #put(className: string, put: Raw): void {
    const key = keyOf(classOf(this.#schema, className), put);
    this.#states.set(nameOf(className, key), put);
    this.changes.push({ class: className, key, put });
  }

  #patch(className: string, key: string[], changes: unknown): void {
    const state = this.#state(className, key);
    const patch = encodeChanges(changes);
    // The server will refuse this patch; there is nothing to show.
    if (state === null) return;
    if (isOlder(this.#schema, className, state["release"])) {
      // A patch of the stored data would mix two releases.
      const document = documentOf(this.#schema, className, reviveMap(state));
      const set = revive(patch.set) as Raw;
      this.#put(className, encodeDocument(this.#schema, className, patched(document, { ...patch, set })));
      return;
    }
    this.#states.set(nameOf(className, key), patched(state, patch));
    this.changes.push({ class: className, key, ...patch });
  }

  #delete(className: string, key: string[]): void {
    classOf(this.#schema, className);
    this.#states.set(nameOf(className, key), null);
    this.changes.push({ class: className, key });
  }

  #state(className: string, key: string[]): Raw | null {
    classOf(this.#schema, className);
    const state = this.#states.get(nameOf(className, key));
    if (state !== undefined) return state;
    this.wants.push([className, key]);
    throw new Missing("the document is not known yet");
  }
}

function nameOf(className: string, key: string[]): string {
  return JSON.stringify([className, key]);
}
