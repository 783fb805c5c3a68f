/** Svelte, from version 4 on: stores of the values of a session. `$store` subscribes, and ends with its component. */

import type { ClassName, DocumentOf, KeyOf, MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import type { Session } from "../session/session.js";
import type { StatusValue } from "../session/status.js";
import type { ItemsOf } from "../views/composite.js";
import type { LeaseOptions } from "../views/views.js";
import type { Operations, PendingOperation, RefusedOperation } from "../writes/operation-types.js";
import {
  countStore,
  documentStore,
  liveStore,
  pendingStore,
  queryStore,
  type AskedCount,
  type AskedLive,
  type CountResult,
  type DocumentOptions,
  type DocumentResult,
  type ItemLists,
  type LiveResult,
  type Store,
} from "./stores.js";

export type { CountResult, DocumentOptions, DocumentResult, LiveResult } from "./stores.js";

/** A store of Svelte: it calls back at once with its value, then at each change. */
export interface Readable<T> {
  subscribe(this: void, run: (value: T) => void, invalidate?: () => void): () => void;
}

/** The documents of a match. The subscription is held while components use the store. */
export function live<S extends SchemaDeclaration, O extends Operations<S>, C extends ClassName<S>>(
  session: Session<S, O>,
  className: C,
  match: MatchOf<S[C]>,
  options?: LeaseOptions,
): Readable<LiveResult<DocumentOf<S[C]>>> {
  return readable(liveStore(session as unknown as Session<S>, className, match, options));
}

/** One document, with its items of the classes `items`. The subscription is held while components use the store. */
export function document<S extends SchemaDeclaration, O extends Operations<S>, C extends ClassName<S>, I extends ItemsOf<S, C> = never>(
  session: Session<S, O>,
  className: C,
  key: KeyOf<S[C]>,
  options?: DocumentOptions<I>,
): Readable<DocumentResult<DocumentOf<S[C]>, ItemLists<S, I>>> {
  return readable(documentStore(session as unknown as Session<S>, className, key, options));
}

/** The result of a query over the documents that its session holds. */
export function query<T>(asked: AskedLive<T>): Readable<LiveResult<T>> {
  return readable(queryStore(asked, () => asked));
}

/** The number of documents of a query. */
export function count(asked: AskedCount): Readable<CountResult> {
  return readable(countStore(asked, () => asked));
}

/** The status of a session. */
export function status(session: { readonly status: Source<StatusValue> }): Readable<StatusValue> {
  return { subscribe: (run) => session.status.subscribe(run) };
}

/** The operations that wait for the server. */
export function pending<S extends SchemaDeclaration, O extends Operations<S>>(
  session: Session<S, O>,
): Readable<readonly PendingOperation[]> {
  return readable(pendingStore(session as unknown as Session));
}

/** The operations that the server refused for good. */
export function refused(session: { readonly refused: Source<readonly RefusedOperation[]> }): Readable<readonly RefusedOperation[]> {
  return { subscribe: (run) => session.refused.subscribe(run) };
}

interface Source<T> {
  subscribe(callback: (value: T) => void): () => void;
}

function readable<T>({ get, subscribe }: Store<T>): Readable<T> {
  return {
    subscribe(run) {
      let told: { value: T } | undefined;
      const tell = (): void => {
        const value = get();
        if (told?.value === value) return;
        told = { value };
        run(value);
      };
      const stop = subscribe(tell);
      tell();
      return stop;
    },
  };
}
