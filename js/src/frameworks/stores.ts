/**
 * The common part of all bindings: stores of a session's values. A store gives the same frozen value until
 * something changes, and makes nothing of its own but listeners.
 */

import type { EscaleError } from "../base/errors.js";
import type { QueryState } from "../schema/query.js";
import type { ClassName, DocumentOf, KeyOf, MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import type { Schema } from "../schema/schema.js";
import type { Session } from "../session/session.js";
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

/** One document, as components show it. */
export interface DocumentResult<T> {
  /** Undefined if there is none; while `ready` is false, if it is not known. */
  readonly doc: T | undefined;
  readonly ready: boolean;
  readonly error: EscaleError | undefined;
}

/** A value that changes. */
export interface Store<T> {
  readonly get: () => T;
  /** Calls back at each change. */
  readonly subscribe: (callback: () => void) => Stop;
}

/** The result before there is a session. */
export const NOTHING: LiveResult<never> = Object.freeze({ docs: Object.freeze([]), ready: false, error: undefined });
const NONE: readonly never[] = NOTHING.docs;

/** The documents of a match, held while there are listeners. */
export function liveStore<S extends SchemaDeclaration, C extends ClassName<S>>(
  session: Session<S> | undefined,
  className: C,
  match: MatchOf<S[C]>,
  options?: LeaseOptions,
): Store<LiveResult<DocumentOf<S[C]>>> {
  type Doc = DocumentOf<S[C]>;
  let list: Collection<Doc> | undefined;
  let failure: EscaleError | undefined;
  let last: LiveResult<Doc> = NOTHING;
  if (!session) return constant(last);
  try {
    list = session.collection(className, match);
  } catch (error) {
    failure = error as EscaleError;
  }
  return {
    get() {
      const { docs = NONE, ready = false } = list ?? {};
      const error = failure ?? list?.error;
      const isSame = docs === last.docs && ready === last.ready && error?.code === last.error?.code;
      return isSame ? last : (last = Object.freeze({ docs, ready, error }));
    },
    subscribe(callback) {
      try {
        // A component that is only drawn subscribes to nothing.
        list = session.collection(className, match, options);
        const stops = [list.subscribe(callback), session.status.subscribe(callback)];
        failure = undefined;
        return () => {
          for (const stop of stops) stop();
        };
      } catch (error) {
        failure = error as EscaleError;
      }
      return told(callback);
    },
  };
}

/** One document of a class, held while there are listeners. */
export function documentStore<S extends SchemaDeclaration, C extends ClassName<S>>(
  session: Session<S> | undefined,
  className: C,
  key: KeyOf<S[C]>,
  options?: LeaseOptions,
): Store<DocumentResult<DocumentOf<S[C]>>> {
  const store = liveStore(session, className, { key }, options);
  return derived(store, ({ docs: [doc], ready, error }) => Object.freeze({ doc, ready, error }));
}

/** The result of a query. `ready` says that it was asked, and finds all documents. */
export function queryStore<T>(session: unknown, build: () => AskedLive<T>): Store<LiveResult<T>> {
  let last: LiveResult<T> = NOTHING;
  if (!session) return constant(last);
  return {
    get: () => last,
    subscribe(callback) {
      try {
        return build().live((docs, { ready, error }) => {
          last = Object.freeze({ docs, ready, error });
          callback();
        });
      } catch (error) {
        last = Object.freeze({ docs: NONE, ready: false, error: error as EscaleError });
        return told(callback);
      }
    },
  };
}

/** The part of a query that a store uses. */
export interface AskedLive<T> {
  live(callback: (docs: readonly T[], state: QueryState) => unknown): Stop;
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
