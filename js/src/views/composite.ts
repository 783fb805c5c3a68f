/** A document together with its items, for callbacks that need all of them at one moment. */

import { callSafely } from "../base/report.js";
import type { ClassName, DocumentOf, SchemaDeclaration } from "../schema/schema-types.js";
import type { LiveState, Stop, View } from "./view.js";

/** The classes that are `in` a class. */
export type ItemsOf<S extends SchemaDeclaration, C> = {
  [N in ClassName<S>]: S[N] extends { readonly in: C } ? N : never;
}[ClassName<S>];

/** A document and its items, by their classes. */
export interface TreeOf<S extends SchemaDeclaration, C extends ClassName<S>, I extends ClassName<S>> {
  /** The document; undefined if the session has none of that key. */
  readonly doc?: DocumentOf<S[C]> | undefined;
  /** The items of each class, in the order of their keys. */
  readonly items: { readonly [N in I]: readonly DocumentOf<S[N]>[] };
}

/** A document and its items, kept up to date together. */
export interface Composite<T> {
  /** The document and its items, as last read. The same frozen object until something changes. */
  readonly now: T;
  /** Resolves once all of them have been loaded completely. Rejects as {@link Collection.ready} does. */
  readonly ready: Promise<T>;
  /** Calls back once all of them are read, then once for each change, however many of them it concerns. */
  subscribe(callback: (now: T, state: LiveState) => unknown): Stop;
}

interface Tree {
  readonly doc?: object | undefined;
  readonly items: { readonly [name: string]: readonly object[] };
}

type Callback = (now: Tree, state: LiveState) => unknown;

/** The composite of these views: that of the parent, and those of the items by their class. */
export function compositeOf(parent: View, items: ReadonlyMap<string, View>): Composite<Tree> {
  const views = [parent, ...items.values()];
  /** Each callback, and whether it was called once. */
  const callbacks = new Map<Callback, boolean>();
  let seen: readonly unknown[] = [];
  let now = treeOf(parent, items);
  const isAtHand = (): boolean => views.every((view) => view.wasRead && !view.isReading);
  const call = (callback: Callback): void => {
    callbacks.set(callback, true);
    callSafely(callback, now, stateOf(views));
  };
  const settle = (): void => {
    // A reply changes several views. The last of them tells.
    if (!isAtHand()) return;
    const { ready, whole, error } = stateOf(views);
    const facts: readonly unknown[] = [...views.map((view) => view.docs), ready, whole, error?.code];
    const isSame = facts.every((fact, at) => fact === seen[at]);
    if (!isSame) now = treeOf(parent, items);
    seen = facts;
    for (const [callback, called] of [...callbacks]) {
      if (callbacks.has(callback) && !(isSame && called)) call(callback);
    }
  };
  for (const view of views) view.watch(settle);
  return Object.freeze({
    get now() {
      return now;
    },
    get ready() {
      return Promise.all(views.map((view) => view.whenReady())).then(() => treeOf(parent, items));
    },
    subscribe: (callback: Callback) => {
      // Each subscription counts, even of the same function.
      const own: Callback = (...args) => callback(...args);
      callbacks.set(own, false);
      if (isAtHand()) call(own);
      return () => {
        callbacks.delete(own);
      };
    },
  });
}

function treeOf(parent: View, items: ReadonlyMap<string, View>): Tree {
  const lists = [...items].map(([name, view]) => [name, view.docs] as const);
  const [doc] = parent.docs;
  return Object.freeze({ doc, items: Object.freeze(Object.fromEntries(lists)) });
}

function stateOf(views: readonly View[]): LiveState {
  const states = views.map((view) => view.state);
  return Object.freeze({
    ready: states.every(({ ready }) => ready),
    whole: states.every(({ whole }) => whole),
    error: states.find(({ error }) => error)?.error,
  });
}
