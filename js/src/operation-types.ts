import type { EscaleError } from "./errors.js";
import type { ClassDeclaration, ClassName, DocumentOf, KeyOf, SchemaDeclaration } from "./schema-types.js";
import type { Value } from "./values.js";

/** What the server gave back for an operation. */
export interface Accepted {
  /** The version of what it wrote; 0 where it wrote nothing, or the server no longer knows. */
  readonly v: number;
  /** What the operation returned, where it is one that returns something. */
  readonly value?: Value;
}

/**
 * An operation that was issued. Nobody needs to wait for its promises, nor to catch what they fail with.
 *
 * Both follow the operation that takes this one's place, when a conflict is settled or a refused one is amended.
 */
export interface Operation {
  /** Its id, a UUID v7. */
  readonly id: string;
  /** Resolves once it is in the journal: on the device, or in the memory of an incognito session. */
  readonly saved: Promise<"device" | "memory">;
  /**
   * Resolves once the server has executed it. It fails when a conflict is settled for the server, when the operation
   * is discarded, and when the session ends before; what is on the device then is still sent, at the next opening.
   * While a refused operation waits in {@link Refused} this waits too.
   */
  readonly accepted: Promise<Accepted>;
}

/** An operation, by what it returned or by its id. */
export type OperationRef = string | { readonly id: string };

/** A version that a document must have: a number, 0 for none, or the one that an earlier operation gives it. */
export type VersionRef = number | { readonly id: string } | { readonly op: string };

/** The arguments of an operation of the application's own. */
export interface OperationArgs {
  readonly [name: string]: Value | undefined;
}

/** What every write may say. */
export interface OrderOptions {
  /** Earlier operations without which this one makes no sense: it waits while one of them is refused. */
  readonly after?: OperationRef | readonly OperationRef[] | undefined;
}

/** A document, by its class and key. */
export type Touched<S extends SchemaDeclaration> = {
  [C in ClassName<S>]: readonly [className: C, key: KeyOf<S[C]>];
}[ClassName<S>];

/** What a write of a document may say. */
export interface WriteOptions extends OrderOptions {
  /** Refused by `version_conflict` unless the document has this version on the server. */
  readonly ifVersion?: VersionRef | undefined;
}

/** What a patch may say. */
export interface PatchOptions<D extends ClassDeclaration> extends WriteOptions {
  /** Properties to take away; so is one that is set to undefined. */
  readonly unset?: readonly Exclude<keyof DocumentOf<D> & string, D["key"][number]>[] | undefined;
}

/** What `run` may say. */
export interface RunOptions<S extends SchemaDeclaration> extends OrderOptions {
  /** The documents that it writes, where it has no optimistic part that tells. */
  readonly touches?: readonly Touched<S>[] | undefined;
}

/** The options of one write within a batch: the order is the batch's own. */
export type Within<Options extends OrderOptions> = Omit<Options, "after">;

/** Some properties of a document. */
export type ChangesOf<D extends ClassDeclaration> = {
  readonly [K in keyof DocumentOf<D>]?: DocumentOf<D>[K] | undefined;
};

/** A whole document, to put: its key properties, and whatever else it has. */
export type DataOf<D extends ClassDeclaration> = ChangesOf<D> & { readonly [K in D["key"][number]]: string };

/** Reads and writes of an optimistic part: on the documents as they are before the operation. */
export interface Transaction<S extends SchemaDeclaration> {
  /** The document of that key, frozen, with what this part has done to it so far. */
  get<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>): DocumentOf<S[C]> | undefined;
  /** Creates or replaces a document. */
  put<C extends ClassName<S>>(className: C, data: DataOf<S[C]>): void;
  /** Changes some properties of a document that there is; one set to undefined is taken away. */
  patch<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>, changes: ChangesOf<S[C]>): void;
  /** Deletes a document. */
  delete<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>): void;
}

/** An operation of the application's own. */
export interface OperationDeclaration<S extends SchemaDeclaration> {
  /**
   * What it does to documents, shown until the server's word is there. It runs at once, and again whenever what it
   * read has changed: the same documents and arguments must give the same. It works on `tx` alone.
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- each operation says what its own arguments are
  readonly optimistic?: ((tx: Transaction<S>, args: any) => void) | undefined;
}

/** The operations of an application, by their names on the server. */
export interface Operations<S extends SchemaDeclaration> {
  readonly [name: string]: OperationDeclaration<S>;
}

/** The names of the declared operations; any other name is taken too. */
export type OperationName<O> = (string extends keyof O ? never : keyof O & string) | (string & {});

/** The arguments that an operation takes: those of its optimistic part, if that says. */
export type ArgsOf<O, N extends string> = string extends keyof O
  ? OperationArgs
  : N extends keyof O
    ? O[N] extends { readonly optimistic: (tx: never, args: infer A) => void }
      ? unknown extends A
        ? OperationArgs
        : A
      : OperationArgs
    : OperationArgs;

/** What is done about a document that has changed on the server since it was written on here. */
export type ConflictPolicy<D extends ClassDeclaration> =
  /** The operation is refused, and waits in `refused`; so it is unless said otherwise. */
  | "ask"
  /** The server's document stays; the operation fails. */
  | "server"
  /** What was written here replaces the server's. */
  | "client"
  /** Property by property: what was changed here is kept, the rest is the server's. */
  | "merge"
  | Settle<D>;

/**
 * Settles a conflict: from the document that was written on, what was made of it, and the server's; undefined where
 * there is none. Gives the document that shall be, null to delete it, or undefined to leave the server's.
 */
export type Settle<D extends ClassDeclaration> = (
  base: DocumentOf<D> | undefined,
  mine: DocumentOf<D> | undefined,
  theirs: DocumentOf<D> | undefined,
) => DataOf<D> | null | undefined;

/** How each class settles its conflicts. */
export type Conflicts<S extends SchemaDeclaration> = {
  readonly [C in ClassName<S>]?: ConflictPolicy<S[C]> | undefined;
};

/** An operation that waits for the server. */
export interface PendingOperation {
  readonly id: string;
  readonly name: string;
  readonly args: OperationArgs;
  /** When it was issued, in milliseconds since 1970 by the device's clock. */
  readonly at: number;
  /** `unsaved`: not in the journal yet; `saved`: sent in its turn; `held`: behind a refused one. */
  readonly state: "unsaved" | "saved" | "held";
}

/** A document as the server had it when it refused an operation on it. */
export interface Theirs {
  readonly className: string;
  readonly v: number;
  /** Null where it is deleted. */
  readonly doc: { readonly [name: string]: unknown } | null;
}

/** An operation that the server refused for good: it, and what depends on it, waits for a decision. */
export interface RefusedOperation {
  readonly id: string;
  readonly name: string;
  /** As they are sent: of `put`, `{ class, data }`; of `patch`, `{ class, key, set, unset }`. */
  readonly args: OperationArgs;
  /** When it was issued, in milliseconds since 1970 by the device's clock. */
  readonly at: number;
  /** Why. */
  readonly error: EscaleError;
  /** Of `version_conflict`: what the server had in its place. */
  readonly theirs?: Theirs;
  /** Issues it with other arguments, in its own place and before all that waits for it. */
  amend(args: OperationArgs): Operation;
  /** Issues it again as it is. */
  retry(): Operation;
  /** Forgets it; what waits for it goes on. */
  discard(): void;
}

/** The operations that the server refused: those now, and every change of the list. */
export interface Refused {
  /** In the order issued: the same frozen array until something changes. */
  readonly value: readonly RefusedOperation[];
  /** Calls back with the list at once, then at every change. */
  subscribe(callback: (refused: readonly RefusedOperation[]) => unknown): () => void;
}

/** An action of the journal: a past state of a document, or what led to it. */
export interface PastState<T> {
  /** Its number in the journal: what a sweep tells it by. */
  readonly rowid: number;
  /** The id of the operation that did it. */
  readonly op: string;
  /** `persist` carries the whole state; `create` and `update` say what led to it. */
  readonly type: "create" | "update" | "persist";
  /** When, in milliseconds since 1970 by the device's clock. */
  readonly at: number;
  /** The version that the server gave it; null until it has accepted. */
  readonly commit: number | null;
  /** Of `persist`: the document; null where it is deleted. */
  readonly doc: T | null;
}
