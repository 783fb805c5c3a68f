/** All the views of a session, and the collections that the application holds of them. */

import type { Core } from "../wasm/core.js";
import type { Documents } from "./documents.js";
import { raise, type EscaleError } from "../base/errors.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import type { Status } from "../session/status.js";
import { itemsMatch } from "./def.js";
import { Leases } from "./leases.js";
import { compositeOf, type Composite } from "./composite.js";
import { LiveQueries } from "./live-queries.js";
import { ALL, Scope, type Rules, type ScopeHost } from "./scope.js";
import { NONE, View, type LiveCallback, type Stop } from "./view.js";
import { notLoaded, waitFor, type WaitOptions } from "./waiting.js";

/** Subscriptions of a session: as many as a socket takes, the bound of `src/limits.rs`. */
const SUBS_MAX = 1_000;

/** The documents of a match, kept up to date. The same match gives the same object. */
export interface Collection<T> {
  /** The documents held now, in the order of their keys. The same frozen array until something changes. */
  readonly docs: readonly T[];
  /** Whether `docs` is the result of a complete load, in this session or in an earlier one. */
  readonly isReady: boolean;
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

type ViewsCore = Pick<Core, "changes" | "inspect" | "list" | "memory" | "subscribe" | "subscriptions" | "unsubscribe" | "watch">;

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
  /** Why the first load cannot end. */
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
  /** The reason why nothing is loaded, in `avion`. */
  #noServer: EscaleError | undefined;
  /** Ends the subscription to a def. */
  readonly #leave: (def: string) => void;
  readonly #leases: Leases;
  #hasScope = false;
  /** The defs whose subscriptions the scope has ended, while somebody watches them. */
  readonly #outside = new Map<string, EscaleError>();
  /** Subscriptions that certainly fit, before they are counted again. */
  #room = 0;
  readonly #byDef = new Map<string, { view: View; collection?: Collection<object> }>();
  /** The composites, by the defs that they consist of. */
  readonly #composites = new Map<string, Composite<object>>();

  constructor(
    core: ViewsCore,
    classes: SchemaDeclaration,
    documents: Documents,
    status: Status,
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
    this.#leases = new Leases(core, status, (def) => {
      leave(def);
      this.end(def);
    });
  }

  /** Subscribes to a def of that class, and calls back. */
  live(className: string, def: string, callback: LiveCallback<object>): Stop {
    return this.#stay(className, def).view.listen(callback);
  }

  /** Subscribes to a def of that class, and keeps its documents in memory. */
  collection(className: string, def: string): Collection<object> {
    const entry = this.#stay(className, def);
    entry.collection ??= collectionOf(entry.view, this.#status);
    return entry.collection;
  }

  /** Subscribes to all that the rules derive from the held documents, and to nothing else of those classes. */
  scope(rules: Rules, read: Pick<ScopeHost, "defOf" | "read">): Stop {
    if (this.#hasScope) throw raise("bad_option", "scope: the session has one; stop it first");
    const host: ScopeHost = {
      ...read,
      core: this.#core,
      classes: this.#classes,
      status: this.#status,
      subscribe: (className, def) => void this.#stay(className, def),
      unsubscribe: (def) => {
        this.#leave(def);
        this.#leases.forget(def);
        const view = this.#byDef.get(def)?.view;
        if (!view?.isWatched) {
          this.end(def);
          return;
        }
        // It shows no documents from now on, and says why. If the def comes back, it shows them again.
        this.#outside.set(def, raise("out_of_scope", `no rule of the session's scope leads to ${def}`));
        view.refused(this.#reasonOf(def));
      },
      onError: this.#onError,
    };
    const scope = new Scope(rules, host);
    const stop = this.queries.follow(scope.classNames, ALL, () => scope);
    this.#hasScope = true;
    return () => {
      stop();
      this.#hasScope = false;
    };
  }

  /** The documents of a def of that class. Only listeners subscribe to it, and only for a while. */
  held(className: string, def: string, keepMs: number): Held<object> {
    const view = (): View | undefined => this.#byDef.get(def)?.view;
    const error = (): EscaleError | undefined => {
      if (this.#status.phase === "closed") return raise("closed", "the session is closed");
      const reason = this.#reasonOf(def);
      return reason && view()?.isLoaded() === false ? reason : undefined;
    };
    return Object.freeze({
      get docs() {
        return view()?.docs ?? NONE;
      },
      get isReady() {
        return view()?.ready ?? false;
      },
      get error() {
        return error();
      },
      subscribe: (callback: () => unknown) => {
        const isNew = !view() && !this.#core.subscriptions().includes(def);
        if (isNew) this.#checkRoom(def);
        const letGo = this.#leases.hold(def, keepMs, isNew);
        const opened = this.#open(className, def).view;
        const stops = [letGo, opened.listen(callback, true), this.#status.subscribe(callback)];
        return () => {
          for (const stop of stops) stop();
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
      views.set(of, this.#stay(of, def).view);
    }
    const parent = views.get(className) as View;
    views.delete(className);
    const made = compositeOf(parent, views);
    this.#composites.set(name, made);
    return made;
  }

  /** Whether one of them is about to read or to call back. */
  get areReading(): boolean {
    return this.queries.areReading || [...this.#byDef.values()].some(({ view }) => view.isReading);
  }

  /** The core reports that these defs changed, and that the ids in `gone` are no longer valid. */
  changed(defs: readonly string[], gone: Uint32Array): void {
    this.#documents.evict(gone);
    for (const def of defs) this.#byDef.get(def)?.view.changed();
    // Those that changed, now or earlier, take note of it.
    for (const { view } of this.#byDef.values()) view.gone(gone);
    this.queries.changed(defs);
  }

  /** The status changed: the server may refuse defs, or nobody may ask it. */
  heard(): void {
    for (const [def, { view }] of this.#byDef) view.refused(this.#reasonOf(def));
  }

  /** Why the first load of a def cannot end. A retryable refusal of the server is no such reason. */
  #reasonOf(def: string): EscaleError | undefined {
    const { mode, faults } = this.#status;
    const fault = faults[def];
    if (fault && !fault.retryable) return fault;
    return this.#outside.get(def) ?? (mode === "avion" ? (this.#noServer ??= notLoaded("avion")) : undefined);
  }

  /** Another core is in use. It knows only the subscriptions that are stored on the device, so all are made again. */
  recovered(): void {
    for (const [def, { view }] of this.#byDef) {
      this.#core.subscribe(def, this.#leases.atRest(def));
      view.recovered();
    }
    this.queries.recovered();
  }

  /** The subscription to a def is over. */
  end(def: string): void {
    this.#leases.forget(def);
    this.#outside.delete(def);
    this.#byDef.get(def)?.view.end();
    this.#byDef.delete(def);
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

  /** Opens a view whose subscription stays until it is ended, even if it was held until now. */
  #stay(className: string, def: string): { view: View; collection?: Collection<object> } {
    if (this.#leases.forget(def)) this.#core.subscribe(def, 0);
    return this.#open(className, def);
  }

  #open(className: string, def: string): { view: View; collection?: Collection<object> } {
    const known = this.#byDef.get(def);
    if (!known) this.#checkRoom(def);
    // A holder has subscribed already. A known one may have ended: in another tab, by the server, by the scope.
    const rest = this.#leases.atRest(def);
    if (known ? !known.view.isCurrent : rest === 0) this.#core.subscribe(def, rest);
    if (this.#outside.delete(def)) known?.view.refused(this.#reasonOf(def));
    if (known) return known;
    const key = this.#classes[className]?.key ?? [];
    const context = { core: this.#core, documents: this.#documents, onError: this.#onError };
    const opened = { view: new View(def, className, key, context) };
    opened.view.refused(this.#reasonOf(def));
    this.#byDef.set(def, opened);
    return opened;
  }

  /** Throws if there are too many subscriptions for another one. They are not counted each time. */
  #checkRoom(def: string): void {
    if (this.#room-- > 0) return;
    const defs = this.#core.subscriptions();
    this.#room = SUBS_MAX - defs.length - 1;
    if (this.#room < 0 && !defs.includes(def)) throw raise("too_many_subscriptions", `there are ${defs.length} already`);
  }
}

function collectionOf(view: View, status: Status): Collection<object> {
  view.keep();
  return Object.freeze({
    get docs() {
      return view.docs;
    },
    get isReady() {
      return view.ready;
    },
    get ready() {
      return view.whenReady();
    },
    whenReady: (options?: WaitOptions) => waitFor(view, status, options),
    subscribe: (callback: LiveCallback<object>) => view.listen(callback, true),
  });
}
