/** The documents of one def, kept in order for the callbacks that listen to it. */

import type { Core, Listing } from "../wasm/core.js";
import { Deferred } from "../base/deferred.js";
import type { Documents } from "./documents.js";
import { raise, type EscaleError } from "../base/errors.js";
import { byKey, patch, type Compare } from "../schema/order.js";
import { callSafely } from "../base/report.js";
import { isFutile } from "./futile.js";

/** Ends a callback: it is never called again. */
export type Stop = () => void;

/** The state of the documents that a callback receives. */
export interface LiveState {
  /** Whether a complete load has finished, and nothing was refused since. If not, the server may have more documents. */
  readonly ready: boolean;
  /**
   * Whether the documents are one state of the server, with the pending writes on top. False while a long load is in
   * progress, and while a document and its items come in several replies.
   */
  readonly whole: boolean;
  /** Why the documents may be incomplete (R94). While there is such a reason, `ready` and `whole` are false. */
  readonly error: EscaleError | undefined;
}

/** Called with the documents, and again at every change. */
export type LiveCallback<T> = (docs: readonly T[], state: LiveState) => unknown;

interface Listener {
  callback: LiveCallback<object>;
  /** Whether it was called once: the first call comes even if nothing changes. */
  called: boolean;
}

/** The parts that a view uses. */
export interface ViewContext {
  subscriptions: Pick<Core, "changes" | "list"> & {
    /** Why a subscription is refused; none if it is not. */
    reasonOf(def: string): EscaleError | undefined;
    /** The reason why nothing is loaded, in `avion`. */
    noServer(): EscaleError | undefined;
  };
  documents: Pick<Documents, "load">;
  onError: (error: unknown) => void;
}

/** No documents. */
export const NONE: readonly never[] = Object.freeze([]);

/**
 * The documents of one def, in order, for all the callbacks that listen to it.
 *
 * At most one refresh runs at a time; all changes meanwhile cause exactly one more. A view without a listener only
 * records that it is out of date.
 */
export class View {
  readonly def: string;
  readonly #className: string;
  readonly #context: ViewContext;
  readonly #compare: Compare<object>;
  readonly #listeners = new Set<Listener>();
  /** Called after each refresh. */
  readonly #watchers = new Set<() => void>();
  #held = new Map<number, object>();
  /** Ids of documents that are still to be read. */
  readonly #wanted = new Set<number>();
  /** Ids in `#held` whose documents are no longer in the def. */
  readonly #left = new Set<number>();
  /** The next listing has to be whole: the changes since the last one are unknown. */
  #isLost = true;
  #docs: readonly object[] = NONE;
  /** Whether a complete load had finished when the documents were read, and whether they were one state of the server. */
  #ready = false;
  #whole = false;
  /** The state that the listeners got last. */
  #told: LiveState | undefined;
  /** Something changed since the last listing was taken. */
  #dirty = true;
  #refreshing = false;
  #scheduled = false;
  #kept = false;
  /** The documents were read at least once. */
  #wasRead = false;
  /** The documents shown were read from a core that no longer exists. */
  #isRenewed = false;
  #ended = false;
  #whenReady: Deferred<readonly object[]> | undefined;

  constructor(def: string, className: string, key: readonly string[], context: ViewContext) {
    this.def = def;
    this.#className = className;
    this.#compare = byKey(key);
    this.#context = context;
  }

  /** The documents, as last read. */
  get docs(): readonly object[] {
    return this.#docs;
  }

  /** The state of the documents, as last read, and by the refusals of now. */
  get state(): LiveState {
    const { error } = this;
    return Object.freeze({ ready: this.#ready && !error, whole: this.#whole && !error, error });
  }

  /** Why the documents may be incomplete: a refusal, or in `avion` that they were never loaded. */
  get error(): EscaleError | undefined {
    if (this.#ended) return undefined;
    const reason = this.#context.subscriptions.reasonOf(this.def);
    if (reason || this.#ready) return reason;
    const noServer = this.#context.subscriptions.noServer();
    return noServer && !this.isLoaded() ? noServer : undefined;
  }

  /** Whether a complete load had finished, and nothing changed since the documents were read. */
  get isCurrent(): boolean {
    return this.#ready && !this.#dirty;
  }

  /** Whether the documents were read at least once. */
  get wasRead(): boolean {
    return this.#wasRead;
  }

  /** Whether a complete load has finished, even if the documents are not read yet. */
  isLoaded(): boolean {
    try {
      return this.#ready || this.#context.subscriptions.list(this.def).ready;
    } catch {
      // The core has just died: the next one knows.
      return true;
    }
  }

  /** Whether it is about to read or to call back. */
  get isReading(): boolean {
    return this.#scheduled || this.#refreshing;
  }

  /** Keeps the view up to date from now on, with or without listeners. */
  keep(): void {
    this.#kept = true;
    this.#schedule();
  }

  /** The documents, once a complete load has finished. Rejects if the view ends first. */
  whenReady(): Promise<readonly object[]> {
    const { promise } = (this.#whenReady ??= new Deferred());
    if (this.state.ready) this.#whenReady.resolve(this.#docs);
    else if (this.#ended) this.#fail(endedEarly());
    else this.#giveUp();
    return promise;
  }

  /** Refusals came or went, or the mode changed. */
  heard(): void {
    if (this.#ended) return;
    this.#giveUp();
    if (this.#wasRead && !isSameState(this.state, this.#told)) this.#schedule();
  }

  /** Ends the waiting if it is futile. A temporary refusal ends by itself. */
  #giveUp(): void {
    const error = this.#whenReady && this.error;
    if (error && isFutile(error)) this.#fail(error);
  }

  /**
   * Calls back with the held documents as soon as they are read, then at each change. With `atOnce` the first call
   * comes during this one, if the documents are read already: stores of Svelte expect that.
   */
  listen(callback: LiveCallback<object>, atOnce = false): Stop {
    if (this.#ended) return () => {};
    const listener: Listener = { callback, called: false };
    this.#listeners.add(listener);
    if (atOnce && this.#wasRead) this.#call(listener);
    this.#schedule();
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Keeps the view up to date, and calls after each refresh, until {@link unwatch} or the view's end. */
  watch(settled: () => void): void {
    this.#watchers.add(settled);
    this.#schedule();
  }

  unwatch(settled: () => void): void {
    this.#watchers.delete(settled);
  }

  /** The core reports a change. */
  changed(): void {
    if (this.#ended) return;
    this.#dirty = true;
    this.#schedule();
  }

  /** The core no longer names these ids. If it has named the def since the last listing, they may be of that def. */
  gone(ids: Uint32Array): void {
    if (this.#dirty || this.#refreshing) for (const id of ids) this.#leave(id);
  }

  /**
   * The ids of the documents shown are no longer valid: all documents are read again, and the old ones stay visible
   * until then.
   */
  recovered(): void {
    this.#forget();
    this.#isRenewed = true;
    this.changed();
  }

  /** The subscription or the session is over: no more callbacks, no documents. */
  end(): void {
    this.#ended = true;
    this.#dirty = this.#ready = this.#whole = false;
    this.#listeners.clear();
    this.#watchers.clear();
    this.#forget();
    this.#docs = NONE;
    this.#fail(endedEarly());
  }

  /** Schedules one refresh for a burst of changes, after the core's call is over. */
  #schedule(): void {
    if (this.#scheduled || this.#refreshing || !this.isWatched) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      void this.#refresh();
    });
  }

  /** Whether somebody waits for its documents. */
  get isWatched(): boolean {
    return !this.#ended && (this.#kept || this.#listeners.size + this.#watchers.size > 0);
  }

  async #refresh(): Promise<void> {
    if (this.#refreshing || !this.isWatched) return;
    this.#refreshing = true;
    try {
      do {
        const outcome = this.#dirty ? await this.#readOnce() : "same";
        if (outcome !== "overtaken") this.#tell(outcome === "changed");
      } while (this.#dirty || this.#isAwaited());
    } catch (error) {
      const again = this.#dirty;
      this.#dirty = true;
      // Not retried by itself: the next change or the next listener retries.
      queueMicrotask(() => again && this.#schedule());
      if (!this.#ended) this.#context.onError(error);
    } finally {
      this.#refreshing = false;
      for (const settled of this.#watchers) settled();
    }
  }

  /** Takes one listing and reads it. */
  async #readOnce(): Promise<"changed" | "same" | "overtaken"> {
    this.#dirty = false;
    const { ready, whole } = this.#list();
    const left = [...this.#left];
    const loaded = await this.#context.documents.load(this.#className, [...this.#wanted]);
    // A document whose new version arrived during the read would be missing for a short time if shown now.
    if (this.#ended || this.#isLost || (loaded.overtaken && this.#dirty)) return "overtaken";
    this.#ready = ready;
    this.#whole = whole;
    this.#wasRead = true;
    return this.#apply(left, loaded.documents) ? "changed" : "same";
  }

  /** Asks which documents are new and which ones left, since the last listing. */
  #list(): Listing {
    const isLost = this.#isLost;
    // Until the core has answered.
    this.#isLost = true;
    const listing = this.#context.subscriptions.changes(this.def, isLost);
    this.#isLost = false;
    if (!listing.left) this.#wanted.clear();
    for (const id of listing.left ?? this.#held.keys()) this.#leave(id);
    for (const id of listing.ids) if (!this.#left.delete(id) && !this.#held.has(id)) this.#wanted.add(id);
    return listing;
  }

  #leave(id: number): void {
    this.#wanted.delete(id);
    if (this.#held.has(id)) this.#left.add(id);
  }

  #apply(left: readonly number[], loaded: Map<number, object>): boolean {
    const isSame = left.length === 0 && loaded.size === 0 && !this.#isRenewed;
    const removed = left.map((id) => this.#held.get(id) as object);
    for (const id of left) {
      this.#left.delete(id);
      this.#held.delete(id);
    }
    for (const [id, document] of loaded) {
      this.#held.set(id, document);
      // It became invalid while the rest was read.
      if (!this.#wanted.has(id)) this.#left.add(id);
    }
    this.#wanted.clear();
    if (isSame) return false;
    const before = this.#isRenewed ? NONE : this.#docs;
    this.#isRenewed = false;
    this.#docs = Object.freeze(patch(before, removed, [...loaded.values()].sort(this.#compare), this.#compare));
    return true;
  }

  /** The ids held mean nothing any more. */
  #forget(): void {
    for (const ids of [this.#held, this.#wanted, this.#left]) ids.clear();
    this.#isLost = true;
  }

  /** Whether a listener still waits for its first call. */
  #isAwaited(): boolean {
    return [...this.#listeners].some((listener) => !listener.called);
  }

  #tell(changed: boolean): void {
    const { state } = this;
    const isOther = changed || !isSameState(state, this.#told);
    // The subscription has ended, or was refused, and may begin again: who waits then waits for another load.
    if (this.#told?.ready && !state.ready) this.#whenReady = undefined;
    this.#told = state;
    if (state.ready) this.#whenReady?.resolve(this.#docs);
    for (const listener of [...this.#listeners]) {
      // A callback may stop another one, or end the subscription.
      if (this.#listeners.has(listener) && (isOther || !listener.called)) this.#call(listener);
    }
  }

  #call(listener: Listener): void {
    listener.called = true;
    callSafely(listener.callback, this.#docs, this.state);
  }

  /** Ends the waiting for the first load. The next one who waits gets another promise. */
  #fail(error: EscaleError): void {
    this.#whenReady?.reject(error);
    this.#whenReady = undefined;
  }
}

/** Whether two states are the same for the application. */
export function isSameState(one: Partial<LiveState>, other: Partial<LiveState> | undefined): boolean {
  return one.ready === other?.ready && one.whole === other?.whole && one.error?.code === other?.error?.code;
}

function endedEarly(): EscaleError {
  return raise("closed", "it ended before its first load");
}
