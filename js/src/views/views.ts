/** All the views of a session, and the collections that the application holds of them. */

import type { Core } from "../wasm/core.js";
import type { Documents } from "./documents.js";
import { raise, type EscaleError } from "../base/errors.js";
import type { QueryState } from "../schema/query.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import type { LiveStatus, Status } from "../session/status.js";
import { classOf, itemsMatch } from "./def.js";
import { Leases } from "./leases.js";
import { compositeOf, type Composite } from "./composite.js";
import { LiveQueries } from "./live-queries.js";
import { ALL, Scope, type Rules, type ScopeHost } from "./scope.js";
import { Subscriptions } from "./subscriptions.js";
import { NONE, View, type LiveCallback, type Stop } from "./view.js";
import { waitFor, type WaitOptions } from "./waiting.js";

/** The documents of a match, kept up to date. The same match gives the same object. */
export interface Collection<T> {
  /** The documents held now, in the order of their keys. The same frozen array until something changes. */
  readonly docs: readonly T[];
  /** Whether `docs` is the result of a complete load, in this session or in an earlier one, and nothing was refused since. */
  readonly isReady: boolean;
  /** Why `docs` may be incomplete. While there is such a reason, `isReady` is false. */
  readonly error: EscaleError | undefined;
  /**
   * Resolves with the documents once a complete load has finished; at once if one finished before. Rejects if the
   * server refuses them for good, for example because it does not know the class. Rejects with `not_loaded` in `avion`,
   * if they were never loaded. Otherwise it waits for the server: {@link whenReady} can end that.
   */
  readonly ready: Promise<readonly T[]>;
  /** The same, with an end: a signal, or no network. */
  whenReady(options?: WaitOptions): Promise<readonly T[]>;
  /**
   * Calls back with the documents as soon as they are read, then at each change. If they are at hand, the first call
   * comes before `subscribe` returns.
   */
  subscribe(callback: LiveCallback<T>): Stop;
}

type ViewsCore = Pick<Core, "changes" | "find" | "inspect" | "list" | "memory" | "subscribe" | "subscriptions" | "unsubscribe" | "watch">;

/** A list that somebody shows, or keeps in memory. */
interface Shown {
  readonly view: View;
  /** The key of the document that the def names, if it names one. */
  readonly key: readonly string[] | undefined;
  collection?: Collection<object>;
}

/** How a subscription is held. */
export interface HoldOptions {
  /**
   * Milliseconds that the subscription stays after its last listener: to the millisecond while the session is open, and
   * to the day otherwise. The default is 30 days.
   */
  readonly keep?: number | undefined;
}

/** The documents of a match, subscribed to while somebody listens, and a while longer. */
export interface Held<T> {
  /** The documents at hand, in the order of their keys. The same frozen array until something changes. */
  readonly docs: readonly T[];
  /** Whether `docs` is the result of a complete load. */
  readonly isReady: boolean;
  /** Why `docs` may be incomplete. While there is such a reason, `isReady` is false. */
  readonly error: EscaleError | undefined;
  /** Subscribes, and calls back at each change of the fields. */
  subscribe(callback: () => unknown): Stop;
}

/** The views of a session, by def. */
export class Views {
  readonly #core: ViewsCore;
  readonly #classes: SchemaDeclaration;
  readonly #documents: Documents;
  readonly #onError: (error: unknown) => void;
  /** The live queries. */
  readonly queries: LiveQueries;
  readonly #status: Status;
  /** Ends the subscription to a def. */
  readonly #leave: (def: string) => void;
  readonly #leases: Leases;
  readonly #subscriptions: Subscriptions;
  readonly #byDef = new Map<string, Shown>();
  /** The composites, by the defs that they consist of. */
  readonly #composites = new Map<string, Composite<object>>();

  constructor(
    core: ViewsCore,
    classes: SchemaDeclaration,
    documents: Documents,
    status: LiveStatus,
    onError: (error: unknown) => void,
    leave: (def: string) => void,
  ) {
    this.#core = core;
    this.#status = status;
    this.#classes = classes;
    this.#documents = documents;
    this.#onError = onError;
    this.queries = new LiveQueries(core, onError);
    this.#leave = leave;
    this.#subscriptions = new Subscriptions(core, status, {
      keyOf: (def) => this.#byDef.get(def)?.key,
      isWatched: (def) => this.#byDef.get(def)?.view.isWatched === true,
      heard: () => {
        for (const { view } of this.#byDef.values()) view.heard();
        // While a scope reads, nobody knows yet which subscriptions follow from the change.
        if (!this.#subscriptions.scope?.isReading) this.queries.heard();
      },
      onError,
    });
    this.#leases = new Leases(core, status, (def, lease) => this.#subscriptions.begin(def, lease), (def) => this.#drop(def));
  }

  /** Subscribes to a def of that class, and calls back. With `key` the def is that of a document. */
  live(className: string, def: string, callback: LiveCallback<object>, key?: readonly string[]): Stop {
    return this.#stay(className, def, key).view.listen(callback);
  }

  /** Subscribes to a def of that class, and keeps its documents in memory. */
  collection(className: string, def: string, key?: readonly string[]): Collection<object> {
    const entry = this.#stay(className, def, key);
    entry.collection ??= collectionOf(entry.view, this.#status);
    return entry.collection;
  }

  /** Subscribes to all that the rules derive from the held documents, and to nothing else of those classes. */
  scope(rules: Rules, read: Pick<ScopeHost, "defOf" | "read">): Stop {
    const subscriptions = this.#subscriptions;
    if (subscriptions.scope) throw raise("bad_option", "scope: the session has one; stop it first");
    const host: ScopeHost = {
      ...read,
      core: this.#core,
      classes: this.#classes,
      status: this.#status,
      subscribe: (className, def) => void this.#stay(className, def),
      unsubscribe: (def) => {
        if (!this.#byDef.get(def)?.view.isWatched) {
          this.#drop(def);
          return;
        }
        // It shows no documents from now on, unless another def holds them, and says why. If the def comes back, it shows
        // them again.
        this.#leave(def);
        subscriptions.exclude(def);
      },
      waiting: () => subscriptions.waiting,
      settled: () => subscriptions.heard(),
      onError: this.#onError,
    };
    const scope = new Scope(rules, host);
    const stop = this.queries.follow(scope.classNames, ALL, () => scope);
    subscriptions.scope = scope;
    return () => {
      stop();
      if (subscriptions.scope !== scope) return;
      subscriptions.scope = undefined;
      for (const def of subscriptions.outside) subscriptions.begin(def, this.#leases.atRest(def));
      subscriptions.heard();
    };
  }

  /** The documents of a def of that class. Only listeners subscribe to it, and only for a while. */
  held(className: string, def: string, keepMs: number, key?: readonly string[]): Held<object> {
    const view = (): View | undefined => this.#byDef.get(def)?.view;
    const error = (): EscaleError | undefined =>
      this.#status.phase === "closed" ? raise("closed", "the session is closed") : view()?.error;
    return Object.freeze({
      get docs() {
        return view()?.docs ?? NONE;
      },
      get isReady() {
        return view()?.state.ready ?? false;
      },
      get error() {
        return error();
      },
      subscribe: (callback: () => unknown) => {
        const isNew = !view() && !this.#core.subscriptions().includes(def);
        const letGo = this.#leases.hold(def, keepMs, isNew);
        const opened = this.#open(className, def, key).view;
        const stops = [opened.listen(callback, true), letGo, this.#status.subscribe(callback)];
        return () => {
          for (const stop of stops) stop();
          // There is nothing to keep for a while.
          if (!opened.isWatched && this.#subscriptions.end(def)) this.end(def);
        };
      },
    });
  }

  /** Subscribes to a document and to its items of these classes. `defOf` makes a def of a class and a match. */
  composite(
    className: string,
    key: readonly string[],
    items: readonly string[],
    defOf: (className: string, match: object) => string,
  ): Composite<object> {
    const defs = new Map([[className, defOf(className, { key })]]);
    for (const item of items) {
      const declared = this.#classes[item];
      if (declared?.in !== className) throw raise("bad_option", `items: class ${item} is not \`in\` ${className}`);
      defs.set(item, defOf(item, itemsMatch(declared, key)));
    }
    const name = [...defs.values()].join();
    const known = this.#composites.get(name);
    if (known) return known;
    const views = new Map<string, View>();
    for (const [of, def] of defs) {
      views.set(of, this.#stay(of, def, of === className ? key : undefined).view);
    }
    const parent = views.get(className) as View;
    views.delete(className);
    const made = compositeOf(parent, views);
    this.#composites.set(name, made);
    return made;
  }

  /** Whether one of them is about to read or to call back. */
  get areReading(): boolean {
    return this.queries.areReading || this.#subscriptions.isReading || [...this.#byDef.values()].some(({ view }) => view.isReading);
  }

  /** Whether a query over a class, or within a def of it, finds all documents. */
  stateOf(className: string, within?: string): QueryState {
    return this.#subscriptions.stateOf(className, within);
  }

  /** The core reports that these defs changed, and that the ids in `gone` are no longer valid. */
  changed(defs: readonly string[], gone: Uint32Array): void {
    this.#documents.evict(gone);
    for (const def of defs) this.#byDef.get(def)?.view.changed();
    // Those that changed, now or earlier, take note of it.
    for (const { view } of this.#byDef.values()) view.gone(gone);
    const classes = new Set(defs.map(classOf));
    for (const def of this.#subscriptions.outside) if (classes.has(classOf(def))) this.#byDef.get(def)?.view.changed();
    this.queries.changed(defs);
    this.#subscriptions.changed();
  }

  /** The status changed: the server may refuse defs, or nobody may ask it. */
  heard(): void {
    this.#subscriptions.changed();
  }

  /** Another core is in use. It knows only the subscriptions that are stored on the device, so all are made again. */
  recovered(): void {
    this.#subscriptions.changed();
    for (const [def, { view }] of this.#byDef) {
      this.#subscriptions.begin(def, this.#leases.atRest(def));
      view.recovered();
    }
    this.queries.recovered();
  }

  /** The subscription to a def is over. */
  end(def: string): void {
    this.#leases.forget(def);
    this.#byDef.get(def)?.view.end();
    this.#byDef.delete(def);
    this.#subscriptions.end(def);
    for (const name of [...this.#composites.keys()]) {
      if (name.split(",").includes(def)) this.#composites.delete(name);
    }
  }

  /** The session is over. */
  endAll(): void {
    for (const def of [...this.#byDef.keys()]) this.end(def);
    this.#leases.stop();
    this.queries.endAll();
    this.#documents.end();
  }

  /** Ends the subscription to a def, for all who show it. */
  #drop(def: string): void {
    this.#leave(def);
    this.end(def);
  }

  /** Opens a view whose subscription stays until it is ended, even if it was held until now. */
  #stay(className: string, def: string, key?: readonly string[]): Shown {
    if (this.#leases.forget(def)) this.#subscriptions.begin(def, 0);
    return this.#open(className, def, key);
  }

  #open(className: string, def: string, key?: readonly string[]): Shown {
    const known = this.#byDef.get(def);
    // A holder has subscribed already. A known one may have ended: in another tab, by the server, by the scope.
    const rest = this.#leases.atRest(def);
    if (known ? !known.view.isCurrent : rest === 0) this.#subscriptions.begin(def, rest);
    if (known) return known;
    const subscriptions = this.#subscriptions;
    const listing = (all: boolean | undefined): ReturnType<Core["changes"]> => {
      const found = subscriptions.found(def);
      if (found === undefined) return all === undefined ? this.#core.list(def) : this.#core.changes(def, all);
      return { ids: Uint32Array.of(...(found ? [found] : [])), ready: found !== 0, whole: found !== 0, v: 0, lease: 0 };
    };
    const view = new View(def, className, this.#classes[className]?.key ?? [], {
      core: { list: () => listing(undefined), changes: (_, all) => listing(all) },
      documents: this.#documents,
      onError: this.#onError,
      reasonOf: (of) => subscriptions.reasonOf(of),
      noServer: () => subscriptions.noServer(),
    });
    const opened = { view, key };
    this.#byDef.set(def, opened);
    return opened;
  }
}

function collectionOf(view: View, status: Status): Collection<object> {
  view.keep();
  return Object.freeze({
    get docs() {
      return view.docs;
    },
    get isReady() {
      return view.state.ready;
    },
    get error() {
      return view.error;
    },
    get ready() {
      return view.whenReady();
    },
    whenReady: (options?: WaitOptions) => waitFor(view, status, options),
    subscribe: (callback: LiveCallback<object>) => view.listen(callback, true),
  });
}
