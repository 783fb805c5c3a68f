/** All the views of a session, and the collections that the application holds of them. */

import type { Core } from "../wasm/core.js";
import type { Documents } from "./documents.js";
import { raise, type EscaleError } from "../base/errors.js";
import type { QueryState } from "../schema/query.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import type { LiveStatus } from "../session/status.js";
import { classOf } from "./def.js";
import { Leases } from "./leases.js";
import { compositeOf, type Composite } from "./composite.js";
import { LiveQueries } from "./live-queries.js";
import { ALL, Scope, type Rules, type ScopeHost } from "./scope.js";
import { Subscriptions } from "./subscriptions.js";
import { NONE, View, type LiveCallback, type Stop } from "./view.js";
import { waitFor, type WaitOptions } from "./waiting.js";

/** How long a subscription stays. */
export interface LeaseOptions {
  /**
   * Milliseconds that it stays after its last listener: to the millisecond while the session is open, and to the day
   * otherwise. The default is 30 days. `"forever"` begins it at once, and it stays until `unsubscribe`. The subscription to
   * one document begins only when no other one holds that document, except by `"forever"`.
   */
  readonly keep?: number | "forever" | undefined;
}

/** The documents of a match, subscribed to while somebody listens or waits, and a while longer. */
export interface Collection<T> {
  /** The documents at hand, in the order of their keys. The same frozen array until something changes. */
  readonly docs: readonly T[];
  /** Whether `docs` is the result of a complete load, in this session or in an earlier one, and nothing was refused since. */
  readonly ready: boolean;
  /** Why `docs` may be incomplete. While there is such a reason, `ready` is false. */
  readonly error: EscaleError | undefined;
  /**
   * Subscribes, and resolves with the documents once a complete load has finished; at once if one finished before. From
   * then on `docs` is kept up to date as long as the subscription stays. Rejects if the server refuses them for good, for
   * example because it does not know the class. Rejects with `not_loaded` in `avion`, if they were never loaded. Otherwise
   * it waits for the server: the options can end that.
   */
  whenReady(options?: WaitOptions): Promise<readonly T[]>;
  /**
   * Subscribes, and calls back with the documents as soon as they are read, then at each change. If they are at hand, the
   * first call comes before `subscribe` returns.
   */
  subscribe(callback: LiveCallback<T>): Stop;
}

type ViewsCore = Pick<Core, "changes" | "inspect" | "list" | "memory" | "subscribe" | "subscriptions" | "unsubscribe" | "watch">;

/** How long a subscription stays after its last listener, in milliseconds. */
type LeaseTime = number | "forever";

/** How long it stays by default: 30 days. */
const KEEP_MS = 2_592_000_000;

/** The time of these options, checked. */
function keepOf({ keep = KEEP_MS }: LeaseOptions = {}): LeaseTime {
  if (keep !== "forever" && !(keep >= 0)) throw raise("bad_option", 'keep: must be milliseconds, or "forever"');
  return keep;
}

/** A def of a class that somebody wants. */
export interface Wanted {
  readonly className: string;
  readonly def: string;
}

/** The parts of a session that its views use. */
interface ViewsSession {
  /** Ends the subscription to a def. */
  leave(def: string): void;
  /** Makes a call of the core, or throws if the session is over. */
  guard<T>(call: () => T): T;
}

/** The views of a session, by def. */
export class Views {
  readonly #core: ViewsCore;
  readonly #classes: SchemaDeclaration;
  readonly #documents: Documents;
  readonly #onError: (error: unknown) => void;
  /** The live queries. */
  readonly queries: LiveQueries;
  readonly #status: LiveStatus;
  readonly #session: ViewsSession;
  readonly #leases: Leases;
  readonly #subscriptions: Subscriptions;
  /** The lists that somebody shows, or keeps in memory. */
  readonly #byDef = new Map<string, View>();

  constructor(
    core: ViewsCore,
    classes: SchemaDeclaration,
    documents: Documents,
    status: LiveStatus,
    onError: (error: unknown) => void,
    session: ViewsSession,
  ) {
    this.#core = core;
    this.#status = status;
    this.#classes = classes;
    this.#documents = documents;
    this.#onError = onError;
    this.queries = new LiveQueries(core, onError);
    this.#session = session;
    this.#subscriptions = new Subscriptions(core, status, {
      isWatched: (def) => this.#byDef.get(def)?.isWatched === true,
      changed: (def) => this.#byDef.get(def)?.changed(),
      heard: () => {
        for (const view of this.#byDef.values()) view.heard();
        // While a scope reads, nobody knows yet which subscriptions follow from the change.
        if (!this.#subscriptions.scope?.isReading) this.queries.heard();
      },
      onError,
    });
    this.#leases = new Leases(core, status, (def, lease) => this.#subscriptions.begin(def, lease), (def) => this.#drop(def));
  }

  /** Subscribes to a def while the callback listens, and for `keep` longer. */
  live(wanted: Wanted, options: LeaseOptions | undefined, callback: LiveCallback<object>, atOnce = false): Stop {
    const [view, letGo] = this.#hold(wanted, keepOf(options));
    const stop = view.listen(callback, atOnce);
    return () => {
      stop();
      letGo();
    };
  }

  /** The documents of a def. Only who listens or waits subscribes to it, unless they are kept for ever. */
  collection(wanted: Wanted, options?: LeaseOptions): Collection<object> {
    const keep = keepOf(options);
    const { def } = wanted;
    const view = (): View | undefined => this.#byDef.get(def);
    const error = (): EscaleError | undefined =>
      this.#status.phase === "closed" ? this.#status.over() : view()?.error;
    this.#pin([wanted], keep);
    return Object.freeze({
      get docs() {
        return view()?.docs ?? NONE;
      },
      get ready() {
        return view()?.state.ready ?? false;
      },
      get error() {
        return error();
      },
      whenReady: async (options?: WaitOptions) => {
        await this.#wait([wanted], keep, options);
        return view()?.docs ?? NONE;
      },
      subscribe: (callback: LiveCallback<object>) => this.live(wanted, options, callback, true),
    });
  }

  /** Subscribes to all that the rules derive from the held documents; if it is exclusive, to nothing else of those classes. */
  scope(rules: Rules, host: Pick<ScopeHost, "defOf" | "read" | "isExclusive">): Stop {
    const subscriptions = this.#subscriptions;
    if (subscriptions.scope) throw raise("bad_option", "scope: the session has one; stop it first");
    const scope = new Scope(rules, {
      ...host,
      core: this.#core,
      classes: this.#classes,
      status: this.#status,
      hold: (className, def) => this.#hold({ className, def }, KEEP_MS)[1],
      end: (def) => {
        if (host.isExclusive ? !this.#byDef.get(def)?.isWatched : this.#leases.isIdle(def)) this.#drop(def);
        else if (host.isExclusive) {
          // It shows no documents from now on, unless another def holds them, and says why. If the def comes back, it shows
          // them again.
          this.#session.leave(def);
          subscriptions.exclude(def);
        }
      },
      waiting: () => subscriptions.waiting,
      settled: () => subscriptions.heard(),
      onError: this.#onError,
    });
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

  /** A document and its items of these defs, the document's first. Only who listens or waits subscribes to them. */
  composite(all: readonly Wanted[], options?: LeaseOptions): Composite<object> {
    const keep = keepOf(options);
    this.#pin(all, keep);
    return compositeOf(
      all.slice(1).map(({ className }) => className),
      () => this.#holdAll(all, keep),
      (options) => this.#wait(all, keep, options),
    );
  }

  /** Whether one of them is about to read or to call back. */
  get areReading(): boolean {
    return this.queries.areReading || this.#subscriptions.isReading || [...this.#byDef.values()].some((view) => view.isReading);
  }

  /** Whether a query over a class, or within a def of it, finds all documents. */
  stateOf(className: string, within?: string): QueryState {
    return this.#subscriptions.stateOf(className, within);
  }

  /** The core reports that these defs changed, and that the ids in `gone` are no longer valid. */
  changed(defs: readonly string[], gone: Uint32Array): void {
    this.#documents.evict(gone);
    for (const def of defs) this.#byDef.get(def)?.changed();
    // Those that changed, now or earlier, take note of it.
    for (const view of this.#byDef.values()) view.gone(gone);
    const classes = new Set(defs.map(classOf));
    for (const def of this.#subscriptions.guests) if (classes.has(classOf(def))) this.#byDef.get(def)?.changed();
    this.queries.changed(defs);
    this.#subscriptions.changed(classes);
  }

  /** The status changed: the server may refuse defs, or nobody may ask it. */
  heard(): void {
    this.#subscriptions.changed([]);
  }

  /** Another core is in use. It knows only the subscriptions that are stored on the device, so all are made again. */
  recovered(): void {
    this.#subscriptions.changed([]);
    for (const [def, view] of this.#byDef) {
      this.#subscriptions.begin(def, this.#leases.atRest(def));
      view.recovered();
    }
    this.queries.recovered();
  }

  /** The subscription to a def is over. */
  end(def: string): void {
    this.#leases.forget(def);
    this.#byDef.get(def)?.end();
    this.#byDef.delete(def);
    this.#subscriptions.end(def);
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
    this.#session.leave(def);
    this.end(def);
  }

  /** Subscribes to a def for a listener, or for good. The function lets it go. */
  #hold(wanted: Wanted, keep: LeaseTime): [View, Stop] {
    return this.#session.guard(() => {
      if (keep === "forever") return [this.#stay(wanted), () => {}];
      const { def } = wanted;
      const isNew = !this.#byDef.has(def) && !this.#subscriptions.has(def);
      const letGo = this.#leases.hold(def, keep, isNew);
      const view = this.#open(wanted);
      return [view, () => {
        letGo();
        if (view.isWatched) return;
        // There is nothing to keep for a while.
        if (this.#subscriptions.isRefused(def)) this.end(def);
        else if (this.#leases.isIdle(def) && this.#status.faults[def]?.code === "withdrawn") this.#drop(def);
      }];
    });
  }

  /** Those that are kept for ever are there from now on, with no listener. */
  #pin(all: readonly Wanted[], keep: LeaseTime): void {
    if (keep === "forever") for (const wanted of all) this.#stay(wanted).keep();
  }

  /** A document comes in one state with its items only by a subscription of its own. */
  #holdAll(all: readonly Wanted[], keep: LeaseTime): [View[], Stop] {
    const held = all.map((wanted) => this.#hold(wanted, keep));
    if (all.length > 1) for (const { def } of all) this.#subscriptions.needWhole(def);
    return [held.map(([view]) => view), () => held.forEach(([, letGo]) => letGo())];
  }

  /** Waits for all of them. From then on they are kept up to date as long as their subscriptions stay. */
  async #wait(all: readonly Wanted[], keep: LeaseTime, options?: WaitOptions): Promise<View[]> {
    const [views, letGo] = this.#holdAll(all, keep);
    try {
      for (const view of views) view.keep();
      await waitFor(views, this.#status, options);
      return views;
    } finally {
      letGo();
    }
  }

  /** Opens a view whose subscription stays until it is ended, even if it was held until now. */
  #stay(wanted: Wanted): View {
    if (this.#leases.forget(wanted.def)) this.#subscriptions.begin(wanted.def, 0);
    return this.#open(wanted);
  }

  #open({ className, def }: Wanted): View {
    const known = this.#byDef.get(def);
    // A holder has subscribed already. A known one may have ended: in another tab, by the server, by the scope.
    const rest = this.#leases.atRest(def);
    if (known ? !known.isCurrent : rest === 0) this.#subscriptions.begin(def, rest);
    if (known) return known;
    const view = new View(def, className, this.#classes[className]?.key ?? [], {
      subscriptions: this.#subscriptions,
      documents: this.#documents,
      onError: this.#onError,
    });
    this.#byDef.set(def, view);
    return view;
  }
}
