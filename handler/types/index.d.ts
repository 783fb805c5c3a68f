/** A value that a property of a document, or an argument, can hold. */
export type Value = string | number | boolean | null | Uint8Array | readonly Value[] | { readonly [key: string]: Value };

/** A schema, in the form of docs/schema.md: the file that the application's sessions have, too. */
export type Schema = { readonly [className: string]: object };

/** The documents of an org, as an operation of the application reads and writes them within its write. */
export interface Documents {
  readonly org: string;
  /** The account of the session that runs the operation; empty without `authorize`. */
  readonly account: string;
  /** A living document, or undefined. `key` has the values of its key properties. */
  get(className: string, key: readonly string[]): { [name: string]: Value } | undefined;
  /** Creates or replaces a document. */
  put(className: string, data: object): void;
  /** Sets these properties. Those that are undefined are taken away. */
  patch(className: string, key: readonly string[], changes: object): void;
  delete(className: string, key: readonly string[]): void;
}

/**
 * An operation of the application. It is not async, and may run several times before its write is made: all that it does goes
 * through `documents`. It refuses by throwing a {@link Fault}. Returns the value of the operation, 1 MiB at most.
 */
export type Operation = (documents: Documents, args: { [name: string]: Value }) => Value | void;

/** Who calls: `role` is `read` for one who may not write. */
export interface Caller {
  readonly account: string;
  readonly role?: "read" | "write" | "admin";
}

/** Undefined for a token that is missing or unknown (401), false for one that does not open the org (403). */
export type Authorize = (request: { token: string | undefined; org: string }) => Admitted | Promise<Admitted>;
type Admitted = Caller | undefined | null | false;

/** A row of a table. Rows are sorted by `v`, then by key. */
export interface Row {
  /** The version of a document, or another number by which its table is read. Below 2^53. */
  readonly v: number;
  /** The time of the write, in milliseconds since 1970. */
  readonly at: number;
  readonly state: "alive" | "deleted" | "left";
  /** The end of a document's life, in milliseconds since 1970. */
  readonly ends?: number | undefined;
  /** A {@link Value}. A storage may keep it as JSON, with bytes as docs/protocol.md has them. */
  readonly value?: unknown;
}

type Later<T> = T | Promise<T>;

/** A transaction of a storage. It sees its own changes or not: nothing is read after `set`. */
export interface Transaction {
  /** The rows of these keys, in their order; undefined where there is none. */
  get(org: string, table: string, keys: readonly string[]): Later<(Row | undefined)[]>;
  /** At most `limit` rows behind (v, key), ascending. With `bare` they may come without their values. */
  page(org: string, table: string, from: { after: readonly [v: number, key: string]; limit: number; bare?: boolean }): Later<[key: string, row: Row][]>;
  /**
   * How many rows have a `v` of at least `since`, and are alive or, from `gone` on, deleted. A row whose `ends` is at or before
   * `now` counts as deleted; one with the state `left` does not count.
   */
  count(org: string, table: string, which: { since: number; gone: number; now: number }): Later<number>;
  /** Puts rows, or removes those that are undefined. No row is there twice. */
  set(rows: readonly [org: string, table: string, key: string, row: Row | undefined][]): Later<void>;
  /** Tells all instances of a write, once it is committed. For a storage with `listen`. */
  announce?(org: string, defs: readonly [def: string, v: number][], time: number): Later<void>;
}

/**
 * Where a handler keeps everything: six functions, each of which returns a value or a promise. {@link Transaction} has the
 * other four. `escale-handler/conformance` checks a storage.
 */
export interface Storage {
  /** Runs `look` on one snapshot, which has each write that began under this lock before it. */
  read<T>(lock: string, look: (tx: Transaction) => Later<T>): Later<T>;
  /**
   * Runs `act` while no other write runs under this lock, and then commits. If `act` throws, or its promise rejects, nothing
   * is changed. An error with `isContention` says that another write was in the way.
   */
  write<T>(lock: string, act: (tx: Transaction) => Later<T>): Later<T>;
  /** Hears of the writes of all instances. Called without arguments, it says that some may have been missed. */
  listen?(hear: (org?: string, defs?: readonly [def: string, v: number][], time?: number) => void): void;
  close?(): Later<void>;
}

export interface HandlerOptions {
  storage: Storage;
  schema: Schema;
  /** Who may enter. Without it, everyone may, as one account. */
  authorize?: Authorize | undefined;
  /** The operations of the application, by their names. */
  operations?: { readonly [name: string]: Operation } | undefined;
  /** The origins of pages that may call, in addition to those of localhost; `"*"` for all. */
  origins?: readonly string[] | "*" | undefined;
  /** The server's clock, in milliseconds since 1970; `Date.now` by default. */
  clock?: (() => number) | undefined;
  /** How long tombstones are kept: 365 days by default. */
  retentionMs?: number | undefined;
  /** How long results are kept: 90 days by default. */
  resultsMs?: number | undefined;
  /** The weight of a reply's rows, in bytes: 1 MiB by default. */
  pageBytes?: number | undefined;
  /** `delta` of docs/protocol.md: at least a second more than the clocks of two instances differ. 2,000 ms by default. */
  deltaMs?: number | undefined;
  /** Takes the errors of the server and of operations; by default they are printed. */
  onError?: ((error: unknown) => void) | undefined;
}

/** A socket: a `WebSocket` of the web, or one of `ws`. */
export interface Socket {
  /** Takes a text or a `Uint8Array`. */
  send(data: any): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "message" | "close" | "error", listener: (event: any) => void): void;
  readonly bufferedAmount?: number;
}

export declare class Handler {
  /** Answers a request under any base path. Never rejects. It needs no `this`. */
  readonly fetch: (request: Request) => Promise<Response>;
  /**
   * Looks at the request of an upgrade. Returns the response that refuses it, or a function that takes the socket once it is
   * made. It needs no `this`.
   */
  readonly live: (request: Request) => Response | ((socket: Socket) => void);
  /** A write of the server itself: sessions hear of it. Its version, or its {@link Fault}; a promise as the storage is. */
  write(org: string, name: string, args: object): Later<number>;
  /** Removes tombstones, results and documents that no session needs. Call it once an hour. */
  purge(): Later<void>;
  /** Begins a later epoch, after the database was restored from a backup: sessions load everything again. */
  renewEpoch(): Later<void>;
  /** Closes all sockets, and the storage. */
  close(): Promise<void>;
}

/** Makes a handler of requests: the protocol on a storage. Throws for an option or a schema that cannot be used. */
export declare function createHandler(options: HandlerOptions): Handler;

/** A fault: an operation of the application throws one of kind A, N or S to refuse (docs/protocol.md, "Faults"). */
export declare class Fault extends Error {
  constructor(code: string, kind: "A" | "N" | "B" | "D" | "S" | "C" | "X" | "O", message?: string, more?: { phase?: number; doc?: object });
  readonly code: string;
  readonly kind: string;
}

/** A token of a table. `until` is in milliseconds since 1970. */
export interface Token extends Caller {
  readonly orgs: readonly string[];
  readonly until?: number;
}

/** An `authorize` for a table of tokens, or for a function that returns it. */
export declare function byTokens(
  table: { readonly [token: string]: Token } | (() => Later<{ readonly [token: string]: Token }>),
  clock?: () => number,
): Authorize;

/** A storage in memory, which answers at once. `copy` and `restore` are a backup. */
export declare function memory(): Storage & { copy(): unknown; restore(copy: unknown): void };

/** `shaS` of docs/protocol.md: the pk of a key, whose values are joined by `/`. */
export declare function shaS(text: string): string;
