/** Vue 3: composables for the values of a session. */

import { inject, onScopeDispose, provide, shallowRef, toRaw, toValue, watch, type InjectionKey, type MaybeRefOrGetter, type ShallowRef } from "vue";

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

/** The composables of a schema. Call them in `setup`, or in another scope of effects. */
export interface Composables<X extends Schema, O> {
  /** Gives the session to the components within. A ref may be undefined while the session opens. */
  provideSession(session: MaybeRefOrGetter<SessionOf<X, O> | undefined>): void;
  /** The session. Throws if there is none yet. */
  useSession(): SessionOf<X, O>;
  /** The documents of a match, which may be a ref or a getter. The subscription is held while the scope lives. */
  useLive<C extends ClassName<DeclarationOf<X>>>(
    className: C,
    match: MaybeRefOrGetter<MatchOf<DeclarationOf<X>[C]>>,
    options?: LeaseOptions,
  ): Readonly<ShallowRef<LiveResult<DocumentOf<DeclarationOf<X>[C]>>>>;
  /** One document, by a key that may be a ref or a getter, with its items of the classes `items`. */
  useDocument<C extends ClassName<DeclarationOf<X>>, I extends ItemsOf<DeclarationOf<X>, C> = never>(
    className: C,
    key: MaybeRefOrGetter<KeyOf<DeclarationOf<X>[C]>>,
    options?: DocumentOptions<I>,
  ): Readonly<ShallowRef<DocumentResult<DocumentOf<DeclarationOf<X>[C]>, ItemLists<DeclarationOf<X>, I>>>>;
  /** The result of a query. It is built again if a ref that `build` reads changes. */
  useQuery<T>(build: (session: SessionOf<X, O>) => AskedLive<T>): Readonly<ShallowRef<LiveResult<T>>>;
  /** The number of documents of a query. It is built again if a ref that `build` reads changes. */
  useCount(build: (session: SessionOf<X, O>) => AskedCount): Readonly<ShallowRef<CountResult>>;
  /** The status; undefined without a session. */
  useStatus(): Readonly<ShallowRef<StatusValue | undefined>>;
  /** The operations that wait for the server. */
  usePending(): Readonly<ShallowRef<readonly PendingOperation[]>>;
  /** The operations that the server refused for good. */
  useRefused(): Readonly<ShallowRef<readonly RefusedOperation[]>>;
}

const NONE: Store<readonly never[]> = /* @__PURE__ */ constant(NOTHING.docs);

/**
 * Makes the composables of a schema, with an injection of their own:
 *
 *     export const { provideSession, useLive } = createComposables<typeof schema>();
 */
export function createComposables<X extends Schema, O = unknown>(): Composables<X, O> {
  type Given = SessionOf<X, O> | undefined;
  const key: InjectionKey<MaybeRefOrGetter<Given>> = Symbol("escale");

  // A `ref` gives a proxy of its object, and the private fields of a session are not those of a proxy.
  const given = (source: MaybeRefOrGetter<Given>): Given => toRaw(toValue(source));

  function useStore<T>(make: (session: Given) => Store<T>): ShallowRef<T> {
    const source = inject(key, undefined);
    // Rendered on a server nothing listens, because no scope would ever end there.
    const isServer = typeof window === "undefined";
    let stop = (): void => {};
    const result = shallowRef() as ShallowRef<T>;
    watch(
      () => make(given(source)),
      (store) => {
        stop();
        const tell = (): void => void (result.value = store.get());
        stop = isServer ? () => {} : store.subscribe(tell);
        tell();
      },
      { immediate: true, flush: "sync" },
    );
    onScopeDispose(() => stop());
    return result;
  }

  return {
    provideSession: (session) => provide(key, session),
    useSession() {
      const session = given(inject(key, undefined));
      if (!session) throw new Error("there is no session: call provideSession in a component around this one");
      return session;
    },
    useLive: (className, match, options) =>
      useStore((session) => liveStore(session as Session<DeclarationOf<X>> | undefined, className, toValue(match), options)),
    useDocument: (className, key, options) =>
      useStore((session) => documentStore(session as Session<DeclarationOf<X>> | undefined, className, toValue(key), options)),
    useQuery: (build) =>
      useStore((session) => {
        // Built here, so that the refs that it reads are watched.
        const query = session && build(session);
        return queryStore(session, () => query as ReturnType<typeof build>);
      }),
    useCount: (build) =>
      useStore((session) => {
        const query = session && build(session);
        return countStore(session, () => query as AskedCount);
      }),
    useStatus: () => useStore<StatusValue | undefined>((session) => (session ? valueStore(session.status) : constant(undefined))),
    usePending: () => useStore((session) => pendingStore(session as Session | undefined)),
    useRefused: () => useStore<readonly RefusedOperation[]>((session) => (session ? valueStore(session.refused) : NONE)),
  };
}
