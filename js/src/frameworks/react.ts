/** React, from version 18 on: hooks for the values of a session. */

import { createContext, createElement, useContext, useMemo, useSyncExternalStore, type ReactElement, type ReactNode } from "react";

import type { EscaleError } from "../base/errors.js";
import type { ClassName, DocumentOf, KeyOf, MatchOf } from "../schema/schema-types.js";
import type { Schema } from "../schema/schema.js";
import type { Session } from "../session/session.js";
import type { StatusValue } from "../session/status.js";
import type { ItemsOf } from "../views/composite.js";
import type { LeaseOptions } from "../views/views.js";
import type { PendingOperation, RefusedOperation } from "../writes/operation-types.js";
import {
  constant,
  countStore,
  documentStore,
  liveStore,
  NOTHING,
  pendingStore,
  queryStore,
  valueStore,
  type AskedCount,
  type AskedLive,
  type CountResult,
  type DeclarationOf,
  type DocumentOptions,
  type DocumentResult,
  type ItemLists,
  type LiveResult,
  type SessionOf,
  type Store,
} from "./stores.js";
import { isOver, waitedStore, waitFor } from "./waits.js";

export type { CountResult, DocumentOptions, DocumentResult, LiveResult } from "./stores.js";

/** How a hook holds its subscription, and waits. */
export interface LiveOptions extends LeaseOptions {
  /** Suspends until the first complete load has finished. Errors then go to the error boundary. */
  readonly suspense?: boolean | undefined;
}

/** The hooks of a schema. */
export interface Hooks<X extends Schema, O> {
  /** Gives the session to the components within. Undefined, while it opens: lists are empty and not ready. */
  EscaleProvider(props: { session: SessionOf<X, O> | undefined; children?: ReactNode }): ReactElement;
  /** The session. Throws if there is none yet. */
  useSession(): SessionOf<X, O>;
  /** The documents of a match. The subscription is held while components use it. */
  useLive<C extends ClassName<DeclarationOf<X>>>(
    className: C,
    match: MatchOf<DeclarationOf<X>[C]>,
    options?: LiveOptions,
  ): LiveResult<DocumentOf<DeclarationOf<X>[C]>>;
  /** One document, with its items of the classes `items`. The subscription is held while components use it. */
  useDocument<C extends ClassName<DeclarationOf<X>>, I extends ItemsOf<DeclarationOf<X>, C> = never>(
    className: C,
    key: KeyOf<DeclarationOf<X>[C]>,
    options?: LiveOptions & DocumentOptions<I>,
  ): DocumentResult<DocumentOf<DeclarationOf<X>[C]>, ItemLists<DeclarationOf<X>, I>>;
  /** The result of a query over the documents that the session holds. It is built again if `deps` change. */
  useQuery<T>(build: (session: SessionOf<X, O>) => AskedLive<T>, deps: readonly unknown[]): LiveResult<T>;
  /** The number of documents of a query. It is built again if `deps` change. */
  useCount(build: (session: SessionOf<X, O>) => AskedCount, deps: readonly unknown[]): CountResult;
  /** The status; undefined without a session. */
  useStatus(): StatusValue | undefined;
  /** The operations that wait for the server. */
  usePending(): readonly PendingOperation[];
  /** The operations that the server refused for good. */
  useRefused(): readonly RefusedOperation[];
}

const NONE: Store<readonly never[]> = /* @__PURE__ */ constant(NOTHING.docs);

/**
 * Makes the hooks of a schema, with a context of their own:
 *
 *     export const { EscaleProvider, useLive } = createHooks<typeof schema>();
 */
export function createHooks<X extends Schema, O = unknown>(): Hooks<X, O> {
  const Context = createContext<SessionOf<X, O> | undefined>(undefined);

  function useStore<T>(make: (session: SessionOf<X, O> | undefined) => Store<T>, deps: readonly unknown[]): [T, Store<T>] {
    const session = useContext(Context);
    const store = useMemo(() => make(session), [session, ...deps]);
    return [useSyncExternalStore(store.subscribe, store.get, store.get), store];
  }

  function useResult<T extends { ready: boolean; error: EscaleError | undefined }>(
    key: string,
    make: (session: SessionOf<X, O> | undefined) => Store<T>,
    { keep, suspense = false }: LiveOptions,
  ): T {
    const session = useContext(Context);
    const [result, own] = useStore(make, [key, keep, suspense]);
    if (!suspense || result.ready || !session) return result;
    // React drops the state of a component that suspends, and with it the store that has met an error.
    const store = waitedStore(session, key) as Store<T> | undefined ?? own;
    const waited = store.get();
    if (waited.ready) return waited;
    if (isOver(waited)) throw waited.error as Error;
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- React, 18 and 19, suspends on a thrown promise
    throw waitFor(session, key, store);
  }

  return {
    EscaleProvider: ({ session, children }) => createElement(Context.Provider, { value: session }, children),
    useSession() {
      const session = useContext(Context);
      if (!session) throw new Error("there is no session: give one to the EscaleProvider around this component");
      return session;
    },
    useLive: (className, match, options = {}) =>
      useResult(JSON.stringify([className, match]), (session) => liveStore(session as Session<DeclarationOf<X>> | undefined, className, match, options), options),
    useDocument: (className, key, options = {}) =>
      useResult(JSON.stringify([className, { key }, options.items]) + "d", (session) => documentStore(session as Session<DeclarationOf<X>> | undefined, className, key, options), options),
    useQuery: (build, deps) =>
      useStore((session) => queryStore(session, () => build(session as SessionOf<X, O>)), deps)[0],
    useCount: (build, deps) =>
      useStore((session) => countStore(session, () => build(session as SessionOf<X, O>)), deps)[0],
    useStatus: () => useStore<StatusValue | undefined>((session) => (session ? valueStore(session.status) : constant(undefined)), [])[0],
    usePending: () => useStore((session) => pendingStore(session as Session | undefined), [])[0],
    useRefused: () => useStore<readonly RefusedOperation[]>((session) => (session ? valueStore(session.refused) : NONE), [])[0],
  };
}
