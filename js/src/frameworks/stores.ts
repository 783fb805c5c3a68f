/**
 * The common part of all bindings: stores of a session's values. A store gives the same frozen value until
 * something changes, and makes nothing of its own but listeners.
 */

import type { EscaleError } from "../base/errors.js";
import type { QueryState } from "../schema/query.js";
import type { ClassName, DocumentOf, KeyOf, MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import type { Schema } from "../schema/schema.js";
import type { Session } from "../session/session.js";
import type { Composite, ItemsOf, TreeOf } from "../views/composite.js";
import type { Stop } from "../views/view.js";
import type { Collection, LeaseOptions } from "../views/views.js";
import type { Operations, PendingOperation } from "../writes/operation-types.js";

/** The declaration of a schema: `DeclarationOf<typeof schema>`. */
export type DeclarationOf<X extends Schema> = X extends Schema<infer S> ? S : never;

/** The session of a schema and of its operations. */
export type SessionOf<X extends Schema, O> = Session<DeclarationOf<X>, O extends Operations<DeclarationOf<X>> ? O : Operations<DeclarationOf<X>>>;

/** A list of documents, as components show it. */
export interface LiveResult<T> {
  readonly docs: readonly T[];
  /** Whether a complete load has finished, in this session or in an earlier one, and nothing was refused since. */
  readonly ready: boolean;
  /** Why documents may be missing. While there is such a reason, `ready` is false. */
  readonly error: EscaleError | undefined;
}

/** One document, as components show it, with its items if they were asked for. */
export interface DocumentResult<T, L = object> {
  /** Undefined if there is none; while `ready` is false, if it is not known. */
  readonly doc: T | undefined;
  /** The items by their classes, each in the order of its keys. */
  readonly items: L;
  readonly ready: boolean;
  readonly error: EscaleError | undefined;
}

/** The items of classes, as {@link DocumentResult} gives them. */
export type ItemLists<S extends SchemaDeclaration, I extends ClassName<S>> = { readonly [N in I]: readonly DocumentOf<S[N]>[] };

/** How a document is held, and with which items. */
export interface DocumentOptions<I> extends LeaseOptions {
  /** Classes that are `in` the document's: their items are read with it, at one moment. */
  readonly items?: readonly I[] | undefined;
}

/** The number of documents of a query, as components show it. */
export interface CountResult {
  readonly count: number;
  /** Whether all of them are counted. */
  readonly ready: boolean;
  readonly error: EscaleError | undefined;
}

/** A value that changes. */
export interface Store<T> {
  readonly get: () => T;
  /** Calls back at each change. */
  readonly subscribe: (callback: () => void) => Stop;
}

/** The part that all results have. */
interface Facts {
  readonly ready: boolean;
  readonly error: EscaleError | undefined;
}

/** The result before there is a session. */
export const NOTHING: LiveResult<never> = Object.freeze({ docs: Object.freeze([]), ready: false, error: undefined });
const NONE: readonly never[] = NOTHING.docs;
const NO_ITEMS = Object.freeze({});
const NO_COUNT: CountResult = Object.freeze({ count: 0, ready: false, error: undefined });

/** The documents of a match, held while there are listeners. */
export function liveStore<S extends SchemaDeclaration, C extends ClassName<S>>(
  session: Session<S> | undefined,
  className: C,
  match: MatchOf<S[C]>,
  options?: LeaseOptions,
): Store<LiveResult<DocumentOf<S[C]>>> {
  const make = (own?: LeaseOptions) => (session as Session<S>).collection(className, match, own);
  return heldStore<Collection<DocumentOf<S[C]>>, LiveResult<DocumentOf<S[C]>>>(session, make, options, NOTHING, ({ docs }) => ({ docs }));
}

/** One document of a class, and its items of the classes asked for, held while there are listeners. */
export function documentStore<S extends SchemaDeclaration, C extends ClassName<S>, I extends ItemsOf<S, C> = never>(
  session: Session<S> | undefined,
  className: C,
  key: KeyOf<S[C]>,
  options: DocumentOptions<I> = {},
): Store<DocumentResult<DocumentOf<S[C]>, ItemLists<S, I>>> {
  type Result = DocumentResult<DocumentOf<S[C]>, ItemLists<S, I>>;
  const { items = [] } = options;
  if (items.length === 0) {
    const store = liveStore(session, className, { key }, options);
    return derived(store, ({ docs: [doc], ready, error }) => Object.freeze({ doc, items: NO_ITEMS, ready, error }) as Result);
  }
  const make = (own?: LeaseOptions) => (session as Session<S>).document<C, I>(className, key, { items, ...own });
  const none = Object.freeze(Object.fromEntries(items.map((name) => [name, NONE]))) as unknown as Result["items"];
  const nothing: Result = Object.freeze({ doc: undefined, items: none, ready: false, error: undefined });
  return heldStore<Composite<TreeOf<S, C, I>>, Result>(session, make, options, nothing, ({ now: { doc, items } }) => ({ doc, items }));
}

interface Held extends Facts {
  subscribe(callback: () => void): Stop;
}

/** A store of documents that are subscribed to while there are listeners. */
function heldStore<H extends Held, R extends Facts>(
  session: { readonly status: { subscribe(callback: () => void): Stop } } | undefined,
  make: (options?: LeaseOptions) => H,
  options: LeaseOptions | undefined,
  nothing: R,
  partsOf: (held: H) => Omit<R, keyof Facts>,
): Store<R> {
  let held: H | undefined;
  let failure: EscaleError | undefined;
  let listeners = 0;
  let last = nothing;
  if (!session) return constant(last);
  try {
    held = make();
  } catch (error) {
    failure = error as EscaleError;
  }
  return {
    get() {
      const now = { ...nothing, ...(held && partsOf(held)), ready: held?.ready ?? false, error: failure ?? held?.error };
      return isSame(now, last) ? last : (last = Object.freeze(now));
    },
    subscribe(callback) {
      try {
        // A component that is only drawn subscribes to nothing.
        if (listeners === 0 || !held) held = make(options);
        const stops = [held.subscribe(callback), session.status.subscribe(callback)];
        failure = undefined;
        listeners++;
        return () => {
          listeners--;
          for (const stop of stops) stop();
        };
      } catch (error) {
        failure = error as EscaleError;
      }
      return told(callback);
    },
  };
}

/** Whether two results are equal. Each new refusal has an error of its own. */
function isSame<R extends Facts>(one: R, other: R): boolean {
  const names = Object.keys(one) as (keyof R)[];
  return one.error?.code === other.error?.code && names.every((name) => name === "error" || one[name] === other[name]);
}

/** The result of a query. `ready` says that it was asked, and finds all documents. */
export function queryStore<T>(session: unknown, build: () => AskedLive<T>): Store<LiveResult<T>> {
  return askedStore<LiveResult<T>>(session, NOTHING, (tell) => build().live((docs, { ready, error }) => tell({ docs, ready, error })));
}

/** The number of documents of a query. */
export function countStore(session: unknown, build: () => AskedCount): Store<CountResult> {
  return askedStore(session, NO_COUNT, (tell) => build().liveCount((count, { ready, error }) => tell({ count, ready, error })));
}

function askedStore<R extends Facts>(session: unknown, nothing: R, start: (tell: (result: R) => void) => Stop): Store<R> {
  let last = nothing;
  if (!session) return constant(last);
  return {
    get: () => last,
    subscribe(callback) {
      try {
        return start((result) => {
          last = Object.freeze(result);
          callback();
        });
      } catch (error) {
        last = Object.freeze({ ...nothing, error: error as EscaleError });
        return told(callback);
      }
    },
  };
}

/** The part of a query that a store of its documents uses. */
export interface AskedLive<T> {
  live(callback: (docs: readonly T[], state: QueryState) => unknown): Stop;
}

/** The part of a query that a store of its count uses. */
export interface AskedCount {
  liveCount(callback: (count: number, state: QueryState) => unknown): Stop;
}

/** The operations that wait for the server. Both lists are the same if their operations and states are. */
export function pendingStore(session: Session | undefined): Store<readonly PendingOperation[]> {
  let last: readonly PendingOperation[] = NONE;
  if (!session) return constant(last);
  const read = (): readonly PendingOperation[] => {
    let now: readonly PendingOperation[];
    try {
      now = session.pending();
    } catch {
      // The session is closed, or its core has just died.
      return session.status.phase === "closed" ? NONE : last;
    }
    const isSame = now.length === last.length && now.every(({ id, state }, i) => id === last[i]?.id && state === last[i]?.state);
    return isSame ? last : now;
  };
  let isRead = false;
  return {
    get() {
      if (!isRead) last = read();
      isRead = true;
      return last;
    },
    subscribe: (callback) =>
      session.status.subscribe(() => {
        last = read();
        isRead = true;
        callback();
      }),
  };
}

/** A store of a value of the session that has `value` and `subscribe`. */
export function valueStore<T>(source: { readonly value: T; subscribe(callback: () => void): Stop }): Store<T> {
  return { get: () => source.value, subscribe: (callback) => source.subscribe(callback) };
}

/** A store that never changes. */
export function constant<T>(value: T): Store<T> {
  return { get: () => value, subscribe: () => () => {} };
}

function derived<A extends object, B>({ get, subscribe }: Store<A>, change: (value: A) => B): Store<B> {
  let from: A | undefined;
  let to: B;
  return {
    get() {
      const value = get();
      if (value !== from) to = change((from = value));
      return to;
    },
    subscribe,
  };
}

function told(callback: () => void): Stop {
  callback();
  return () => {};
}
