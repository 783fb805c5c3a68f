/** A document together with its items, for callbacks that need all of them at one moment. */

import type { EscaleError } from "../base/errors.js";
import { callSafely } from "../base/report.js";
import type { ClassName, DocumentOf, SchemaDeclaration } from "../schema/schema-types.js";
import { NONE, type LiveState, type Stop, type View } from "./view.js";
import type { WaitOptions } from "./waiting.js";

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

/** A document and its items, kept up to date together, as long as somebody listens or waits, and a while longer. */
export interface Composite<T> {
  /** The document and its items, as last read. The same frozen object until something changes. */
  readonly now: T;
  /** Whether all of them have been loaded completely, and nothing was refused since. */
  readonly ready: boolean;
  /** Why some may be missing. While there is such a reason, `ready` is false. */
  readonly error: EscaleError | undefined;
  /** Resolves once all of them have been loaded completely. Rejects as {@link Collection.whenReady} does. */
  whenReady(options?: WaitOptions): Promise<T>;
  /** Calls back once all of them are read, then once for each change, however many of them it concerns. */
  subscribe(callback: (now: T, state: LiveState) => unknown): Stop;
}

interface Tree {
  readonly doc?: object | undefined;
  readonly items: { readonly [name: string]: readonly object[] };
}

type Callback = (now: Tree, state: LiveState) => unknown;

/**
 * The composite of a document and of its items of these classes. `hold` subscribes to them for a listener, and gives their
 * views, the document's first; `wait` waits for them.
 */
export function compositeOf(
  items: readonly string[],
  hold: () => readonly [views: readonly View[], letGo: Stop],
  wait: (options?: WaitOptions) => Promise<readonly View[]>,
): Composite<Tree> {
  /** Each callback, and whether it was called once. */
  const callbacks = new Map<Callback, boolean>();
  let views: readonly View[] = [];
  let docs: readonly (readonly object[])[] = [];
  let now = treeOf(items, docs);
  let told: readonly unknown[] = [];
  const read = (): Tree => {
    const current = views.map((view) => view.docs);
    if (current.some((list, at) => list !== docs[at])) now = treeOf(items, (docs = current));
    return now;
  };
  const isAtHand = (): boolean => views.every((view) => view.wasRead && !view.isReading);
  const call = (callback: Callback): void => {
    callbacks.set(callback, true);
    callSafely(callback, read(), stateOf(views));
  };
  const settle = (): void => {
    // A reply changes several views. The last of them tells.
    if (!isAtHand()) return;
    const { ready, whole, error } = stateOf(views);
    const facts: readonly unknown[] = [read(), ready, whole, error?.code];
    const isSame = facts.every((fact, at) => fact === told[at]);
    told = facts;
    for (const [callback, called] of [...callbacks]) {
      if (callbacks.has(callback) && !(isSame && called)) call(callback);
    }
  };
  return Object.freeze({
    get now() {
      return read();
    },
    get ready() {
      return stateOf(views).ready;
    },
    get error() {
      return stateOf(views).error;
    },
    whenReady: async (options?: WaitOptions) => {
      views = await wait(options);
      return read();
    },
    subscribe: (callback: Callback) => {
      // Each subscription counts, even of the same function.
      const own: Callback = (...args) => callback(...args);
      const [held, letGo] = hold();
      views = held;
      callbacks.set(own, false);
      if (isAtHand()) call(own);
      for (const view of views) view.watch(settle);
      return () => {
        callbacks.delete(own);
        // Those of now: they are other ones if the subscription has ended, and has begun again, since this callback came.
        if (callbacks.size === 0) for (const view of [...held, ...views]) view.unwatch(settle);
        letGo();
      };
    },
  });
}

function treeOf(items: readonly string[], [parent, ...lists]: readonly (readonly object[])[]): Tree {
  return Object.freeze({ doc: parent?.[0], items: Object.freeze(Object.fromEntries(items.map((name, at) => [name, lists[at] ?? NONE]))) });
}

function stateOf(views: readonly View[]): LiveState {
  const states = views.map((view) => view.state);
  return Object.freeze({
    ready: states.length > 0 && states.every(({ ready }) => ready),
    whole: states.every(({ whole }) => whole),
    error: states.find(({ error }) => error)?.error,
  });
}
