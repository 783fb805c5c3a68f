/**
 * Every subscription that this session wants. The core has most of them. Some wait for a place, to some no rule of the scope
 * leads, and some are of a single document that another one holds. This alone decides whether a list or a query may lack
 * documents (R94).
 */

import type { Core, Listing } from "../wasm/core.js";
import { raise, type EscaleError } from "../base/errors.js";
import type { QueryState } from "../schema/query.js";
import type { LiveStatus } from "../session/status.js";
import { classOf } from "./def.js";
import { DAYS } from "./leases.js";
import type { Scope } from "./scope.js";
import { notLoaded } from "./waiting.js";

/** Subscriptions of a session: as many as a socket takes, the bound of `src/limits.rs`. */
const SUBS_MAX = 1_000;

type SubscriptionsCore = Pick<Core, "changes" | "list" | "memory" | "subscribe" | "subscriptions">;

/** The lists of the session. */
export interface Lists {
  isWatched(def: string): boolean;
  /** The documents of a list come from another subscription from now on. */
  changed(def: string): void;
  /** Refusals may have come or gone. */
  heard(): void;
  onError(error: unknown): void;
}

/** The subscriptions of a session, and the reasons why some are refused. */
export class Subscriptions {
  /** The scope, if the session has one. */
  scope: Scope | undefined;
  readonly #core: SubscriptionsCore;
  readonly #status: LiveStatus;
  readonly #lists: Lists;
  /** Those without a place, in the order in which they came, with their leases. */
  readonly #waiting = new Map<string, number>();
  /** Those to which no rule of the scope leads, while somebody wants them. */
  readonly #outside = new Map<string, EscaleError>();
  /** Those of one document each, which another subscription holds, with their leases. They begin once none does. */
  readonly #covered = new Map<string, number>();
  /** Those that may not be covered: the documents that come in one state with their items. */
  readonly #whole = new Set<string>();
  /** Those of them that were not loaded when they were listed last. */
  readonly #unloaded = new Set<string>();
  /** The classes whose covered documents may have left. */
  readonly #stale = new Set<string>();
  /** Those that the core has, during the present call. Later, other tabs may have begun some or ended some. */
  #begun: Set<string> | undefined;
  /** By class, whether each def that somebody wants is loaded. */
  #wanted: Map<string, Map<string, boolean>> | undefined;
  #isScheduled = false;
  /** The refusals of this side in the status. */
  #told = "";
  #noPlace: EscaleError | undefined;
  #noServer: EscaleError | undefined;

  constructor(core: SubscriptionsCore, status: LiveStatus, lists: Lists) {
    this.#core = core;
    this.#status = status;
    this.#lists = lists;
  }

  /** Whether it is about to look at the refusals. */
  get isReading(): boolean {
    return this.#isScheduled;
  }

  /** Those without a place. */
  get waiting(): readonly string[] {
    return [...this.#waiting.keys()];
  }

  /** Those to which no rule of the scope leads. */
  get outside(): readonly string[] {
    return [...this.#outside.keys()];
  }

  /** Those that may show a document which another def holds: the core does not have them, or they are not loaded. */
  get guests(): readonly string[] {
    return [...this.#outside.keys(), ...this.#covered.keys(), ...this.#unloaded];
  }

  /** Whether the core has this one. */
  has(def: string): boolean {
    this.heard();
    return this.#all().has(def);
  }

  /** Those that the core has: one call for all lists that appear at once. They are forgotten after {@link heard}. */
  #all(): Set<string> {
    return (this.#begun ??= new Set(this.#core.subscriptions()));
  }

  /** Begins a subscription, or sets its lease. Without a place it waits for one, behind the others. */
  begin(def: string, lease: number): void {
    const isWaiting = this.#waiting.has(def);
    const isBegun = this.#all().has(def);
    if (!isWaiting) this.#forget(def);
    if (this.scope?.excludes(def)) {
      this.exclude(def);
      return;
    }
    if (!isWaiting && !isBegun && this.#isCovered(def, lease)) {
      this.#covered.set(def, lease);
      return;
    }
    this.#wait(def, lease);
  }

  /** Begins a subscription although another one holds its document. */
  uncover(def: string): void {
    const lease = this.#covered.get(def);
    if (lease === undefined) return;
    this.#covered.delete(def);
    if (this.scope?.excludes(def)) this.exclude(def);
    else this.#wait(def, lease);
    this.#lists.changed(def);
  }

  /** The document of a def and its items come in one state: it has a subscription of its own. */
  needWhole(def: string): void {
    this.#whole.add(def);
    this.#unloaded.add(def);
    this.uncover(def);
  }

  /**
   * Whether other subscriptions hold the document of a def, as long as its own one would stay. Nobody knows here which of
   * them does. One that is kept for ever outlives all others.
   */
  #isCovered(def: string, lease: number): boolean {
    if (lease === 0 || this.#whole.has(def) || !this.#held(def)) return false;
    const outlives = (other: string): boolean => {
      const { lease: days } = this.#core.list(other);
      return days === 0 || days % DAYS >= lease % DAYS;
    };
    return [...this.#all()].every((other) => classOf(other) !== classOf(def) || outlives(other));
  }

  /** Whether the server refuses a def of the same class: its documents stay, and nothing refreshes them. */
  #isRefused(def: string): boolean {
    return Object.keys(this.#status.refusedByServer).some((other) => classOf(other) === classOf(def));
  }

  #wait(def: string, lease: number): void {
    const isFirst = this.#waiting.size === 0;
    this.#waiting.set(def, lease);
    if (isFirst) this.#admit();
  }

  /** No rule of the scope leads to a def, and somebody wants it. */
  exclude(def: string): void {
    this.#release(def);
    this.#outside.set(def, raise("out_of_scope", `no rule of the scope leads to ${def}`));
  }

  /** Whether a def is not subscribed to, because there is no place or no rule leads to it. */
  isRefused(def: string): boolean {
    return this.#waiting.has(def) || this.#outside.has(def);
  }

  /** Nobody wants a def any more. */
  end(def: string): void {
    this.#release(def);
    this.#whole.delete(def);
  }

  /** Its subscription is over: it may have held the documents of covered ones. */
  #release(def: string): void {
    this.#forget(def);
    this.#stale.add(classOf(def));
  }

  #forget(def: string): void {
    this.#wanted = undefined;
    for (const defs of [this.#begun, this.#waiting, this.#outside, this.#covered, this.#unloaded]) defs?.delete(def);
    this.heard();
  }

  /** Other defs may be subscribed to or loaded, or be refused by the server. Documents of these classes may have left. */
  changed(classes: Iterable<string>): void {
    this.#wanted = undefined;
    for (const name of classes) this.#stale.add(name);
    this.heard();
  }

  /** Looks at the refusals once this call is over. */
  heard(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      try {
        this.#review();
      } catch {
        // The core has just died: the next one is asked.
      }
    });
  }

  /** The documents of a def, or of another one that holds the document which it names. */
  list(def: string): Listing {
    const listed = this.#core.list(def);
    if (listed.ready) this.#unloaded.delete(def);
    if (!this.#isElsewhere(def)) return listed;
    const ready = listed.ids.length > 0;
    return { ...listed, ready, whole: ready };
  }

  /** The changes of a def since the last call. A document that another def holds may come and go: that is listed each time. */
  changes(def: string, all: boolean): ReturnType<Core["changes"]> {
    return this.#isElsewhere(def) || this.#unloaded.has(def) ? this.list(def) : this.#core.changes(def, all);
  }

  /** The document of a def that the core does not have, if another def holds it: 0 if none does. Undefined for all others. */
  found(def: string): number | undefined {
    return this.#isElsewhere(def) ? this.#held(def) : undefined;
  }

  /** Whether the core does not have a def, although somebody shows it. */
  #isElsewhere(def: string): boolean {
    return this.#outside.has(def) || this.#covered.has(def);
  }

  #held(def: string): number {
    try {
      return this.#core.list(def).ids[0] ?? 0;
    } catch {
      return 0;
    }
  }

  /** Why a def is refused. */
  reasonOf(def: string): EscaleError | undefined {
    if (this.#waiting.has(def)) return this.#noPlace;
    return this.found(def) ? undefined : (this.#outside.get(def) ?? this.#status.refusedByServer[def]);
  }

  /** The reason why nothing is loaded, in `avion`. */
  noServer(): EscaleError | undefined {
    return this.#status.mode === "avion" ? (this.#noServer ??= notLoaded("avion")) : undefined;
  }

  /** Whether a query over a class, or within a def of it, finds all documents. */
  stateOf(className: string, within?: string): QueryState {
    // A query within one document is answered by its own subscription.
    if (within !== undefined) this.uncover(within);
    const isWhole = this.#isWhole(className);
    // A collection that nobody subscribes to is read from its class.
    const one = within === undefined ? undefined : this.#defsOf(className).get(within) ?? (isWhole ? undefined : false);
    const scope = isWhole || one !== undefined || !this.scope?.sourcesOf(className) ? undefined : this.scope;
    const classes = [className, ...(scope?.sourcesOf(className) ?? [])].filter((name) => !this.#isWhole(name));
    const defs = one === undefined ? classes.flatMap((name) => [...this.#defsOf(name)]) : [[within as string, one] as const];
    let ready = defs.every(([, isLoaded]) => isLoaded) && (scope?.isSettled ?? true);
    let error = scope?.failure;
    for (const [def] of defs) error ??= this.reasonOf(def);
    if (!ready) error ??= this.noServer();
    if (error) ready = false;
    return Object.freeze({ ready, error });
  }

  /** Whether the whole class is subscribed to and loaded: then no other subscription adds anything. */
  #isWhole(className: string): boolean {
    return this.#defsOf(className).get(className) === true && !this.reasonOf(className);
  }

  /** The defs of a class that somebody wants, and whether each is loaded. */
  #defsOf(className: string): ReadonlyMap<string, boolean> {
    const wanted = this.#wanted ?? new Map<string, Map<string, boolean>>();
    if (!this.#wanted) {
      const add = (def: string, isLoaded: boolean): void => {
        const ofClass = wanted.get(classOf(def)) ?? new Map<string, boolean>();
        wanted.set(classOf(def), ofClass.set(def, isLoaded));
      };
      // The server has ended some, and somebody still shows them.
      for (const def of Object.keys(this.#status.refusedByServer)) if (this.#lists.isWatched(def)) add(def, false);
      for (const def of [...this.waiting, ...this.outside]) add(def, this.#outside.has(def));
      for (const { def, ready } of this.#core.memory().collections) add(def, ready);
      this.#wanted = wanted;
    }
    return wanted.get(className) ?? new Map<string, boolean>();
  }

  /** Begins those for which there is a place. */
  #admit(): void {
    for (const [def, lease] of [...this.#waiting]) {
      if (!this.#all().has(def) && this.#all().size >= SUBS_MAX) continue;
      this.#waiting.delete(def);
      this.#core.subscribe(def, lease);
      this.#all().add(def);
    }
    if (this.#waiting.size === 0 || this.#noPlace) return;
    this.#noPlace = raise("too_many_subscriptions", `there are ${SUBS_MAX} already, and this one waits for a place`);
    this.#lists.onError(this.#noPlace);
  }

  #review(): void {
    if (this.#status.phase === "closed") return;
    this.#wanted = this.#begun = undefined;
    for (const def of [...this.#covered.keys()]) {
      const isGone = this.#stale.has(classOf(def)) && this.#core.list(def).ids.length === 0;
      if (isGone || this.#isRefused(def)) this.uncover(def);
    }
    this.#stale.clear();
    if (this.#waiting.size > 0) this.#admit();
    this.#begun = undefined;
    const { failure, targets = [] } = this.scope ?? {};
    const refused = [...this.waiting, ...this.outside].map((def) => [def, this.reasonOf(def)] as const);
    const own = [...refused, ...targets.map((name) => [name, failure] as const)].filter(([, reason]) => reason);
    const told = String(own);
    if (told !== this.#told) this.#status.refuse(Object.fromEntries(own) as Record<string, EscaleError>);
    this.#told = told;
    this.#lists.heard();
  }
}
