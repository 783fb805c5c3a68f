/** Solid: accessors of the values of a session. */

import { createContext, createEffect, createSignal, onCleanup, useContext, type Accessor, type JSX } from "solid-js";

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

export type { CountResult, DocumentOptions, DocumentResult, LiveResult } from "./stores.js";

/** The primitives of a schema. Call them in a component, or in another owner. */
export interface Primitives<X extends Schema, O> {
  /** Gives the session to the components within. It may be undefined while the session opens. */
  EscaleProvider(props: { session: SessionOf<X, O> | undefined; children?: JSX.Element }): JSX.Element;
  /** The session. Throws if there is none yet. */
  useSession(): SessionOf<X, O>;
  /** The documents of a match. The subscription is held while the owner lives. */
  createLive<C extends ClassName<DeclarationOf<X>>>(
    className: C,
    match: Accessor<MatchOf<DeclarationOf<X>[C]>>,
    options?: LeaseOptions,
  ): Accessor<LiveResult<DocumentOf<DeclarationOf<X>[C]>>>;
  /** One document, with its items of the classes `items`. The subscription is held while the owner lives. */
  createDocument<C extends ClassName<DeclarationOf<X>>, I extends ItemsOf<DeclarationOf<X>, C> = never>(
    className: C,
    key: Accessor<KeyOf<DeclarationOf<X>[C]>>,
    options?: DocumentOptions<I>,
  ): Accessor<DocumentResult<DocumentOf<DeclarationOf<X>[C]>, ItemLists<DeclarationOf<X>, I>>>;
  /** The result of a query. It is built again if a signal that `build` reads changes. */
  createQuery<T>(build: (session: SessionOf<X, O>) => AskedLive<T>): Accessor<LiveResult<T>>;
  /** The number of documents of a query. It is built again if a signal that `build` reads changes. */
  createCount(build: (session: SessionOf<X, O>) => AskedCount): Accessor<CountResult>;
  /** The status; undefined without a session. */
  useStatus(): Accessor<StatusValue | undefined>;
  /** The operations that wait for the server. */
  usePending(): Accessor<readonly PendingOperation[]>;
  /** The operations that the server refused for good. */
  useRefused(): Accessor<readonly RefusedOperation[]>;
}

const NONE: Store<readonly never[]> = /* @__PURE__ */ constant(NOTHING.docs);

/**
 * Makes the primitives of a schema, with a context of their own:
 *
 *     export const { EscaleProvider, createLive } = createPrimitives<typeof schema>();
 */
export function createPrimitives<X extends Schema, O = unknown>(): Primitives<X, O> {
  type Given = SessionOf<X, O> | undefined;
  const Context = createContext<Accessor<Given>>(() => undefined);

  function useStore<T>(make: (session: Given) => Store<T>): Accessor<T> {
    const session = useContext(Context);
    // Results are frozen: the same object means that nothing changed.
    const [value, setValue] = createSignal<T>(make(session()).get());
    // Effects do not run on a server: nothing listens there.
    createEffect(() => {
      const store = make(session());
      const tell = (): void => void setValue(() => store.get());
      onCleanup(store.subscribe(tell));
      tell();
    });
    return value;
  }

  return {
    EscaleProvider: (props) =>
      Context.Provider({
        value: () => props.session,
        get children() {
          return props.children;
        },
      }),
    useSession() {
      const session = useContext(Context)();
      if (!session) throw new Error("there is no session: give one to the EscaleProvider around this component");
      return session;
    },
    createLive: (className, match, options) =>
      useStore((session) => liveStore(session as Session<DeclarationOf<X>> | undefined, className, match(), options)),
    createDocument: (className, key, options) =>
      useStore((session) => documentStore(session as Session<DeclarationOf<X>> | undefined, className, key(), options)),
    createQuery: (build) =>
      useStore((session) => {
        // Built here, so that the signals that it reads are tracked.
        const query = session && build(session);
        return queryStore(session, () => query as ReturnType<typeof build>);
      }),
    createCount: (build) =>
      useStore((session) => {
        const query = session && build(session);
        return countStore(session, () => query as AskedCount);
      }),
    useStatus: () => useStore<StatusValue | undefined>((session) => (session ? valueStore(session.status) : constant(undefined))),
    usePending: () => useStore((session) => pendingStore(session as Session | undefined)),
    useRefused: () => useStore<readonly RefusedOperation[]>((session) => (session ? valueStore(session.refused) : NONE)),
  };
}
