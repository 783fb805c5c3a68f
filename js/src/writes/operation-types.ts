/**
 * The types of writing: operations and their options, conflict policies, refused operations, and the history of a
 * document.
 */

import type { EscaleError } from "../base/errors.js";
import type { ClassDeclaration, ClassName, DocumentOf, KeyOf, RequiredProperty, SchemaDeclaration } from "../schema/schema-types.js";
import type { Value } from "../schema/raw.js";

/** The server's result for an operation. */
export interface Accepted {
  /** The version that the operation wrote; 0 if it wrote nothing, or if the server no longer knows. */
  readonly v: number;
  /** The value that the operation returned, if any. */
  readonly value?: Value;
}

/**
 * An operation that was issued. Nobody has to await its promises or catch their rejections.
 *
 * If a conflict is resolved by another operation, both promises follow that one.
 */
export interface Operation {
  /** Its id, a UUID v7. */
  readonly id: string;
  /**
   * Resolves once the operation is in the journal: on the device, or in memory in an incognito session. Rejects if the
   * operation is over before that.
   */
  readonly saved: Promise<"device" | "memory">;
  /**
   * Resolves once the server has executed the operation. Rejects with the server's error once it is refused for good:
   * from then on it is in {@link Refused}.
   *
   * It also rejects if a conflict is resolved for the server, or if the session ends first. In the last case an operation
   * that is on the device is still sent, at the next opening.
   */
  readonly accepted: Promise<Accepted>;
}

/** Names an operation: the object that issuing it returned, or its id. */
export type OperationRef = string | { readonly id: string };

/**
 * A version that a document must have: a number, 0 for no document, or the version that an earlier operation creates.
 */
export type VersionRef = number | { readonly id: string } | { readonly op: string };

/** The arguments of an application-defined operation. */
export interface OperationArgs {
  readonly [name: string]: Value | undefined;
}

/** Options of every write. */
export interface OrderOptions {
  /** Earlier operations that this one depends on: it waits while one of them is refused. */
  readonly after?: OperationRef | readonly OperationRef[] | undefined;
}

/** A document, by its class and key. */
export type Touched<S extends SchemaDeclaration> = {
  [C in ClassName<S>]: readonly [className: C, key: KeyOf<S[C]>];
}[ClassName<S>];

/** Options of a write to one document. */
export interface WriteOptions extends OrderOptions {
  /** The server refuses the write with `version_conflict` unless the document has this version there. */
  readonly ifVersion?: VersionRef | undefined;
}

/** Options of a patch. */
export interface PatchOptions<D extends ClassDeclaration> extends WriteOptions {
  /** Properties to remove. A property that is set to undefined is removed as well. */
  readonly unset?: readonly Exclude<keyof DocumentOf<D> & string, D["key"][number] | RequiredProperty<D>>[] | undefined;
}

/** Options of `run`. */
export interface RunOptions<S extends SchemaDeclaration> extends OrderOptions {
  /** The documents that the operation writes, for operations without an optimistic part. */
  readonly touches?: readonly Touched<S>[] | undefined;
}

/** Options of a write within a batch. There is no `after`: the batch has its own order. */
export type Within<Options extends OrderOptions> = Omit<Options, "after">;

/** Some properties of a document. */
export type ChangesOf<D extends ClassDeclaration> = {
  readonly [K in keyof DocumentOf<D>]?: DocumentOf<D>[K] | (K extends RequiredProperty<D> ? never : undefined);
};

/** A whole document, for `put`: its key, its required properties and any others. */
export type DataOf<D extends ClassDeclaration> = ChangesOf<D> & {
  readonly [K in D["key"][number]]: string;
} & { readonly [K in RequiredProperty<D> & keyof DocumentOf<D>]: DocumentOf<D>[K] };

/** The reads and writes of an optimistic part, on the documents as they are before the operation. */
export interface Transaction<S extends SchemaDeclaration> {
  /** The document of that key, frozen, with the changes that this part has made so far. */
  get<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>): DocumentOf<S[C]> | undefined;
  /** Creates or replaces a document. */
  put<C extends ClassName<S>>(className: C, data: DataOf<S[C]>): void;
  /** Changes some properties of an existing document. A property set to undefined is removed. */
  patch<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>, changes: ChangesOf<S[C]>): void;
  /** Deletes a document. */
  delete<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>): void;
}

/** An application-defined operation. */
export interface OperationDeclaration<S extends SchemaDeclaration> {
  /**
   * The operation's effect on documents, shown until the server's result arrives. It runs at once, and again whenever a
   * document that it read has changed. It must depend on these documents and its arguments only, and work through `tx`
   * only.
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- each operation declares its own arguments
  readonly optimistic?: ((tx: Transaction<S>, args: any) => void) | undefined;
}

/** The operations of an application, by their names on the server. */
export interface Operations<S extends SchemaDeclaration> {
  readonly [name: string]: OperationDeclaration<S>;
}

/** The names of the declared operations. Any other name is accepted as well. */
export type OperationName<O> = (string extends keyof O ? never : keyof O & string) | (string & {});

/** The arguments of an operation: those of its optimistic part, if it declares any. */
export type ArgsOf<O, N extends string> = string extends keyof O
  ? OperationArgs
  : N extends keyof O
    ? O[N] extends { readonly optimistic: (tx: never, args: infer A) => void }
      ? unknown extends A
        ? OperationArgs
        : A
      : OperationArgs
    : OperationArgs;

/** The policy for a document that has changed on the server since it was written here. */
export type ConflictPolicy<D extends ClassDeclaration> =
  /**
   * The default. A write expects no version, so it overwrites changes of others. If it says `ifVersion` and the version
   * differs, it waits in `refused`. A patch of a document that a migration has upgraded expects the version that was
   * read, unless the document has pending operations.
   */
  | "overwrite"
  /** The write waits in `refused` with `base`, `mine` and `theirs`, until the application decides. */
  | "ask"
  /** The server's document stays, and the operation fails. */
  | "server"
  /** The document written here replaces the server's. */
  | "client"
  /** Property by property: changes made here are kept, all other properties are the server's. */
  | "merge"
  | Settle<D>;

/**
 * Resolves a conflict. It receives the document before the local write, the document after it, and the server's; each
 * is null if there is none. It returns the new document, null to delete it, or undefined to leave the server's.
 */
export type Settle<D extends ClassDeclaration> = (
  base: DocumentOf<D> | null,
  mine: DocumentOf<D> | null,
  theirs: DocumentOf<D> | null,
) => DataOf<D> | null | undefined;

/** The conflict policy of each class. */
export type Conflicts<S extends SchemaDeclaration> = {
  readonly [C in ClassName<S>]?: ConflictPolicy<S[C]> | undefined;
};

/** An operation that waits for the server. */
export interface PendingOperation {
  readonly id: string;
  readonly name: string;
  readonly args: OperationArgs;
  /** Time of issue, in milliseconds since 1970 by the device's clock. */
  readonly at: number;
  /** `unsaved`: not in the journal yet; `saved`: sent in its turn; `held`: blocked by a refused operation. */
  readonly state: "unsaved" | "saved" | "uploading" | "held";
}

/** The server's document at the time when the server refused an operation on it. */
export interface Theirs {
  readonly className: string;
  readonly v: number;
  /** Null if it is deleted. */
  readonly doc: { readonly [name: string]: unknown } | null;
}

/**
 * An operation that the server refused for good. It waits for a decision, and so does everything that depends on it.
 */
export interface RefusedOperation {
  readonly id: string;
  readonly name: string;
  /** The arguments as they are sent. For `put`: `{ class, data }`; for `patch`: `{ class, key, set, unset }`. */
  readonly args: OperationArgs;
  /** Time of issue, in milliseconds since 1970 by the device's clock. */
  readonly at: number;
  /** The reason of the refusal. */
  readonly error: EscaleError;
  /** For `version_conflict` only: the document that the server had. */
  readonly theirs?: Theirs;
  /**
   * With `theirs`, if the session itself set the version: the document on which the operation was made, and its result.
   * Null if there was none, or if the operation deletes it.
   */
  readonly base?: Theirs["doc"];
  readonly mine?: Theirs["doc"];
  /**
   * Issues it with other arguments, in the same position, before everything that waits for it. Returns a new operation,
   * with promises of its own.
   */
  amend(args: OperationArgs): Operation;
  /** Issues it again unchanged, as a new operation. By the policy `ask` it replaces `theirs`, and no later document. */
  retry(): Operation;
  /** Drops it; the operations that wait for it proceed. */
  discard(): void;
}

/** The operations that the server refused: the current list, and its changes. */
export interface Refused {
  /** In the order of issue. The same frozen array until the list changes. */
  readonly value: readonly RefusedOperation[];
  /** Calls back with the list at once, then at every change. Returns a function that stops the callbacks. */
  subscribe(callback: (refused: readonly RefusedOperation[]) => unknown): () => void;
}

/** An action of the journal: a past state of a document, or a change that led to one. */
export interface PastState<T> {
  /** Its number in the journal, as a sweep lists it. */
  readonly rowid: number;
  /** The id of the operation that caused it. */
  readonly op: string;
  /** `persist` carries the whole state; `create` and `update` are the changes that led to it. */
  readonly type: "create" | "update" | "persist";
  /** Time, in milliseconds since 1970 by the device's clock. */
  readonly at: number;
  /** The version that the server assigned; null until the server has accepted the operation. */
  readonly commit: number | null;
  /** Only for `persist`: the document; null if it is deleted. */
  readonly doc: T | null;
}
