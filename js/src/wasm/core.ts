/**
 * The boundary between this package and its wasm: the exports of `src/web/bindings`, and the functions that the wasm
 * calls back.
 *
 * Only plain values cross. The core names each version of a document by an id that is never used again. `list` gives
 * the ids of a def, and `read` gives the JSON text of those that this side does not hold yet. So each version of a
 * document crosses once, and many documents cross in one call.
 */

import type { CoreError } from "../base/errors.js";

/**
 * The functions that the core calls. Each returns at once, and the core may call it at any time until `close` resolves.
 */
export interface Host {
  /**
   * These defs changed: their members, a member's version, or their readiness. The ids in `gone` are no longer valid.
   */
  changed(defs: string[], gone: Uint32Array): void;
  /** The status changed: a {@link CoreStatus} as JSON. Or another tab has ended the session: an {@link Ending} as JSON. */
  status(json: string): void;
  /** News of an operation: an {@link OperationNews} as JSON. */
  operation(json: string): void;
  /**
   * Runs the optimistic part of an application-defined operation, synchronously. `known` is JSON: the documents that
   * the part may read so far, as {@link KnownDocument}s. Returns an {@link OptimisticOutcome} as JSON, or undefined if
   * the operation has no such part. It must not call any method of {@link Core} meanwhile.
   */
  optimistic?(name: string, args: string, known: string): string | undefined;
  /**
   * Resolves a conflict of a class whose policy is `custom`, synchronously. Documents are JSON, `null` if there is
   * none. Returns the new document as JSON, or `"null"` to delete it; undefined leaves the server's document.
   */
  settle?(className: string, base: string, mine: string, theirs: string): string | undefined;
  /** Operations wait for a word on these objects of files, and on no others. */
  files?(needed: string[]): void;
  /** X, the key derived from the passphrase (docs/rules.md). With it another instance can open the same store again. */
  derived?(x: Uint8Array): void;
  /**
   * The server asks for a token. `refused` is false for the first request, true if the server refused the last token.
   */
  token(refused: boolean): Promise<string | undefined>;
}

/** How to open the core. This side has checked that each option is present and of the right type. */
export interface CoreOptions {
  org: string;
  account: string;
  /** The schema as JSON. */
  schema: string;
  mode: "synced" | "incognito" | "avion";
  /** The URL of an endpoint, or an adapter object. */
  server: string | Adapter | undefined;
  passphrase: string | undefined;
  /** 32 bytes that replace the passphrase. */
  key: Uint8Array | undefined;
  /** X as {@link Host.derived} gave it. It replaces the passphrase of a store that opens by one. */
  derived?: Uint8Array | undefined;
  /** Whether the core works in memory for now, because the device could not be opened. */
  inMemory?: boolean | undefined;
  /** Databases to use instead of the origin's: those of a rehearsal. */
  databases?: IDBFactory | undefined;
  /** Whether `Host.token` can give a token. */
  hasToken: boolean;
  /** Whether the session has files: operations wait for those that they reference. */
  hasFiles: boolean;
  /** Milliseconds between two pulls while the server does not push changes. */
  pollEveryMs?: number | undefined;
  format: "msgpack" | "json";
  /** As JSON, the policy of each class that has one: `ask`, `server`, `client`, `merge` or `custom`. */
  policies: string;
}

/** The fate of an operation. */
export type OperationNews =
  | { kind: "saved"; id: string; where: "device" | "memory" }
  | { kind: "accepted"; id: string; v: number; value?: unknown }
  /** The session discarded it: a conflict was resolved in favour of the server. */
  | { kind: "failed"; id: string; error: CoreError }
  /** The server refused it for good: the operation waits for a decision. */
  | { kind: "refused"; id: string; error: CoreError }
  /** A conflict was resolved: operation `by` replaces this one. */
  | { kind: "amended"; id: string; by: string };

/** A document that an optimistic part may read. */
export interface KnownDocument {
  class: string;
  key: string[];
  state: Record<string, unknown> | null;
}

/**
 * The changes of an optimistic part, or the documents that it has to read first. The core then runs the part again with
 * them.
 */
export interface OptimisticOutcome {
  changes?: (
    | { class: string; key: string[]; put: Record<string, unknown> }
    | { class: string; key: string[]; set: Record<string, unknown>; unset?: string[] }
    | { class: string; key: string[] }
  )[];
  wants?: [className: string, key: string[]][];
}

/** An operation that is not finished. */
export interface CoreOperation {
  id: string;
  name: string;
  args: Record<string, unknown>;
  /** Milliseconds since 1970 by the device's clock. */
  at: number;
  state: "unsaved" | "saved" | "uploading" | "held" | "accepted" | "refused";
  error?: CoreError;
  /**
   * If the operation was refused because the document had changed: the server's document. `data` is null if it is
   * deleted.
   */
  theirs?: { class: string; v: number; data: Record<string, unknown> | null; own?: [base: Record<string, unknown> | null, mine: Record<string, unknown> | null] };
}

/** A past state of a document, or an action that led to it. */
export interface PastAction {
  /** Its number in the journal. */
  rowid: number;
  op: string;
  type: "create" | "update" | "persist";
  at: number;
  /** The version that the server assigned; null until the server has accepted the operation. */
  commit: number | null;
  /** Only for `persist`: the whole state; null if the document is deleted. */
  data: Record<string, unknown> | null;
}

/** A transport that the application implements itself. Messages are plain objects in the protocol's JSON form. */
export interface Adapter {
  /**
   * Sends a SyncRequest. Resolves with a SyncReply as an object, as JSON text, or as msgpack bytes. A rejection with `{
   * code, status, retryAfter }` is understood as the fault of that code.
   */
  sync(request: object): Promise<object | string | Uint8Array>;
  /**
   * Listens for changes of these defs from now on, and replaces the previous call's list. `on` takes server frames in
   * any of the three forms. Returns a function that stops listening. Without `listen` the session polls, every
   * `pollEveryMs`.
   */
  listen?(defs: string[], on: (frame: object | string | Uint8Array) => void): (() => void) | void;
  /**
   * For `escale/accounts`: sends a request of the endpoint `account` with this token, if there is one. Resolves with its
   * answer, in the JSON form.
   */
  account?(request: object, token?: string): Promise<object | string>;
  /** For `escale/files`: the objects of files (docs/protocol.md). Rejections are understood as those of `sync` are. */
  files?: {
    /** Which of at most 1,000 objects are there, in which epoch of the database. To ask is to confirm them. */
    have(shas: readonly string[]): Promise<{ epoch: readonly [number, string]; there: readonly string[] }>;
    /**
     * Stores the bytes of an object. With `list` it is the list of a file of that size; if chunks are missing, it rejects
     * with `{ code: "file_missing", files }`.
     */
    put(sha: string, bytes: Uint8Array, list?: number): Promise<unknown>;
    /** The bytes of an object. If there is none, it rejects with `{ code: "not_found" }`. */
    get(sha: string): Promise<Uint8Array>;
  };
}

/** The contents of a def, as far as the session holds them. */
export interface Listing {
  /** One id for each living member. Ids of documents that are stored next to each other are next to each other here. */
  ids: Uint32Array;
  /** Whether a complete load has finished at least once. */
  ready: boolean;
  /** Whether the documents are one state of the server, together with the others of their tree. */
  whole: boolean;
  /** The collection's version; 0 until the first load has finished. */
  v: number;
  /** How long the subscription lasts, as `subscribe` was given it. */
  lease: number;
}

/**
 * A row of the result of `Core.read`. Bytes in the data are `{"$bytes": base64url}`. The data has no `release`
 * property: the third element gives the release if it differs from the class's.
 */
export type ReadRow = [id: number, data: Record<string, unknown>, release?: number];

/** The core's status, as it crosses. */
export interface CoreStatus {
  mode: "synced" | "incognito" | "avion";
  phase: "opening" | "loading" | "live" | "offline" | "paused" | "avion" | "closed";
  /** Whether changes are pushed, or polled at intervals; null if this session does not talk to a server itself. */
  updates: "pushed" | "polled" | null;
  /** Whether this session talks to the server; if not, the session of another tab does. */
  leads: boolean;
  /** Operations that the server has not accepted yet. */
  pending: number;
  drafts: number;
  /** Progress of the first loads, while they run: documents received, and the total if the server gave it. */
  progress: { received: number; total: number | null } | null;
  storage: "ok" | "memory" | "full" | "lost" | "none";
  /**
   * Records found damaged and not fetched again yet. For operations: those that may be lost with the newest records.
   */
  damaged: { documents: number; collections: number; operations: number };
  /** The last error that belongs to no call, as {@link CoreError}. */
  error: CoreError | null;
  /** Defs that the server refused, each with its reason. */
  faults: Record<string, CoreError>;
  /** The level at which the server restricts the account, as of its last reply; 0 without a restriction. */
  restriction: number;
  /** The role of the account, as of the server's last reply; null if the server knows no accounts. */
  role: Role | null;
}

/** The role of an account in its org. */
export type Role = "read" | "write" | "admin";

/** Why a session is over: by `close` or a bug, by `lock` or `wipe` in any tab, by its account, or by the server. */
export type Ending = "closed" | "locked" | "wiped" | "revoked" | "barred";

/** An open session. Every method may be called at any time; after `end`, each fails with `closed`. */
export interface Core {
  /** The def of a match. The match is JSON: `{}`, `{"section": "x"}`, `{"key": ["x"]}`. */
  def(className: string, match: string): string;
  /**
   * Begins a subscription, or says how long one lasts from now on. The core keeps `lease` and does not read it. 0: until
   * `unsubscribe`.
   */
  subscribe(def: string, lease: number): void;
  /** Ends the subscription. Documents that no other def holds leave the memory and the device. */
  unsubscribe(def: string): void;
  subscriptions(): string[];
  /** Of a def that is not subscribed to, the document that it names by its key, if another def holds that. */
  list(def: string): Listing;
  /**
   * The changes of a def since the last call, for the one view that follows it: `ids` are new, those in `left` are no
   * longer members. Without `left` it is the whole listing: with `all`, at the first call, and after too many changes.
   */
  changes(def: string, all: boolean): Listing & { left?: Uint32Array };
  /**
   * Gives the JSON text of an array of {@link ReadRow}, in the order of the ids. Ids that are no longer valid are left
   * out. A promise of it, if the device must be read first.
   */
  read(ids: Uint32Array): string | Promise<string>;
  /** The id of a document by its key, or 0 if it is not held. `key` is its `parts` key properties joined with `/`. */
  find(className: string, key: string, parts: number): number;
  /**
   * The ids of the documents of a class that satisfy a query, the text of `textOf`. If it has an order, a limit or a
   * cursor, the ids are in its order. A promise of them, if the device must be read first.
   */
  query(className: string, query: string): Uint32Array | Promise<Uint32Array>;
  /**
   * A live query of a class began, or, without a query, one ended. Meanwhile the class keeps its indexes. Throws if the
   * query cannot be answered.
   */
  watch(className: string, query?: string): void;
  /** A document's version, and whether operations on it wait. */
  meta(id: number): { v: number; pending: boolean; deleted: boolean } | undefined;
  /**
   * Issues an operation; all arguments but the name are JSON. Options are `{ touches?: [[class, key]], after?: [id] }`.
   * Returns the operation's id. If it throws, nothing was written.
   */
  write(name: string, args: string, options: string): string;
  /**
   * Issues a refused operation again, with new arguments as JSON or with the same ones. Returns the id of the new
   * operation.
   */
  amend(id: string, args: string | undefined): string;
  discard(id: string): void;
  /** JSON text of an array of {@link CoreOperation}, in order. */
  operations(): string;
  /**
   * The word on objects of files: `there` with the epoch of the confirmation as JSON, `absent`, or the code of the error
   * for which their operations are parked.
   */
  settleFiles(shas: string[], word: string, epoch: string | undefined): void;
  /** The objects of files that operations on the device reference, or those of local documents alone. */
  files(local: boolean): string[];
  /** The keys of the files, 32 bytes to seal and 32 to name. Empty in incognito. */
  fileKeys(): Uint8Array;
  lostByServer(): string[];
  /** JSON text of an array of {@link PastAction}, the oldest first. */
  history(className: string, key: string[]): Promise<string>;
  /** `{ count?, before?, days?, max?, apply? }` as JSON. Gives `{ removed, rowids }` as JSON. */
  sweep(options: string): Promise<string>;
  setMode(mode: string): Promise<void>;
  changePassphrase(old: string, next: string): Promise<void>;
  /** Resolves once the device holds everything that the session holds. */
  flush(): Promise<void>;
  /** Ends the session and forgets the key, except for `closed` in every tab. After `wiped` the store is deleted. */
  end(word: Ending): Promise<void>;
  /** The stored records, at most `limit` of them, for inspectors: table, record key in hex, bytes. */
  inspect(limit: number): Promise<{ name: string; records: { table: string; key: string; bytes: Uint8Array }[]; counts: Record<string, number>; bytes: number }>;
  /** Every collection in memory, for inspectors. */
  memory(): { documents: number; collections: { def: string; v: number; size: number; ready: boolean }[] };
}

/** The death of an instance of the wasm. */
export interface Death {
  /** The error that the instance threw. */
  error: unknown;
  /** Settles once all connections and locks that only this instance held are released. */
  released: Promise<void>;
}

/** The glue that wasm-bindgen generates, for one instance of the wasm. */
export interface Glue {
  /**
   * Calls `listener` when the instance dies. A dead instance is unusable, and its open promises never settle. Returns a
   * function that removes the listener. It takes a listener, because a promise would keep its waiters in memory as long
   * as the instance lives.
   */
  onDeath?(this: void, listener: (death: Death) => void): () => void;
  /** Whether the instance has died or was ended. This is known immediately, before any listener is called. */
  isDead?(this: void): boolean;
  /** Ends the instance and overwrites its memory. Resolves once everything that it held is released. */
  end?(this: void): Promise<void>;
  default(input: { module_or_path: unknown }): Promise<unknown>;
  open(options: CoreOptions, host: Host): Promise<Core>;
  /** Deletes the store of an org and account, if there is one. Fails with `store_in_use` if any tab has it open. */
  wipe(org: string, account: string): Promise<void>;
}
