/** All the views of a session, and the collections that the application holds of them. */

import type { Core } from "../wasm/core.js";
import type { Documents } from "./documents.js";
import type { EscaleError } from "../base/errors.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import { LiveQueries } from "./live-queries.js";
import { View, type LiveCallback, type Stop } from "./view.js";

/** The documents of a match, kept up to date. The same match gives the same object. */
export interface Collection<T> {
  /** The documents held now, in the order of their keys. The same frozen array until something changes. */
  readonly docs: readonly T[];
  /**
   * Resolves with the documents once a complete load has finished; at once if one finished before. Rejects if the
   * server refuses them for good, for example because it does not know the class.
   */
  readonly ready: Promise<readonly T[]>;
  /** Calls back with the documents as soon as they are read, then at each change. */
  subscribe(callback: LiveCallback<T>): Stop;
}

/** The views of a session, by def. */
export class Views {
  readonly #core: Pick<Core, "list" | "subscribe">;
  readonly #classes: SchemaDeclaration;
  readonly #documents: Documents;
  readonly #onError: (error: unknown) => void;
  /** The live queries. */
  readonly queries: LiveQueries;
  /** The server's reasons to refuse defs. */
  #faults: { readonly [def: string]: EscaleError } = {};
  readonly #byDef = new Map<string, { view: View; collection?: Collection<object> }>();

  constructor(
    core: Pick<Core, "list" | "subscribe" | "watch">,
    classes: SchemaDeclaration,
    documents: Documents,
    onError: (error: unknown) => void,
  ) {
    this.#core = core;
    this.#classes = classes;
    this.#documents = documents;
    this.#onError = onError;
    this.queries = new LiveQueries(core, onError);
  }

  /** Subscribes to a def of that class, and calls back. */
  live(className: string, def: string, callback: LiveCallback<object>): Stop {
    return this.#open(className, def).view.listen(callback);
  }

  /** Subscribes to a def of that class, and keeps its documents in memory. */
  collection(className: string, def: string): Collection<object> {
    const entry = this.#open(className, def);
    entry.collection ??= collectionOf(entry.view);
    return entry.collection;
  }

  /** The core reports that these defs changed, and that the ids in `gone` are no longer valid. */
  changed(defs: readonly string[], gone: Uint32Array): void {
    this.#documents.evict(gone);
    for (const def of defs) this.#byDef.get(def)?.view.changed();
    this.queries.changed(defs);
  }

  /** Takes the server's refusals, by def. A retryable refusal rejects no waiting promise. */
  refused(faults: { readonly [def: string]: EscaleError }): void {
    this.#faults = faults;
    for (const [def, { view }] of this.#byDef) view.refused(this.#refusalOf(def));
  }

  #refusalOf(def: string): EscaleError | undefined {
    const fault = this.#faults[def];
    return fault?.retryable ? undefined : fault;
  }

  /** Another core is in use. It knows only the subscriptions that are stored on the device, so all are made again. */
  recovered(): void {
    for (const [def, { view }] of this.#byDef) {
      this.#core.subscribe(def);
      view.recovered();
    }
    this.queries.recovered();
  }

  /** The subscription to a def is over. */
  end(def: string): void {
    this.#byDef.get(def)?.view.end();
    this.#byDef.delete(def);
  }

  /** The session is over. */
  endAll(): void {
    for (const def of [...this.#byDef.keys()]) this.end(def);
    this.queries.endAll();
    this.#documents.end();
  }

  #open(className: string, def: string): { view: View; collection?: Collection<object> } {
    const known = this.#byDef.get(def);
    if (known) return known;
    this.#core.subscribe(def);
    const key = this.#classes[className]?.key ?? [];
    const context = { core: this.#core, documents: this.#documents, onError: this.#onError };
    const opened = { view: new View(def, className, key, context) };
    opened.view.refused(this.#refusalOf(def));
    this.#byDef.set(def, opened);
    return opened;
  }
}

function collectionOf(view: View): Collection<object> {
  view.keep();
  return Object.freeze({
    get docs() {
      return view.docs;
    },
    get ready() {
      return view.whenReady();
    },
    subscribe: (callback: LiveCallback<object>) => view.listen(callback),
  });
}
