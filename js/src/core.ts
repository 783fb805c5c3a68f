/**
 * The boundary between this package and its wasm: what `src/web/bindings` exports, and what it calls back.
 *
 * Only plain values cross. A document crosses once for each of its versions, many documents a crossing: the core
 * names each (document, version) by an id that is never used again, `list` gives the ids of a def, and `read` gives
 * the JSON text of those that this side does not hold yet.
 */

/** What the core calls. Every function returns at once and may be called at any time until `close` resolves. */
export interface Host {
  /** These defs changed (their members, a member's version, or their readiness); those ids are of no use any more. */
  changed(defs: string[], gone: Uint32Array): void;
  /** The status changed; a {@link CoreStatus} as JSON. */
  status(json: string): void;
  /** News of an operation; {@link OperationNews} as JSON. */
  operation(json: string): void;
  /**
   * Runs the optimistic part of an operation of the application's own, at once. `known` is JSON: the documents that it
   * may read so far, as {@link KnownDocument}s. Answers JSON, an {@link OptimisticOutcome}; undefined where the
   * operation has no such part. No method of {@link Core} may be called meanwhile.
   */
  optimistic?(name: string, args: string, known: string): string | undefined;
  /**
   * Settles a conflict of a class whose policy is `custom`, at once, from documents as JSON (`null` where there is
   * none). Answers the document as JSON, `"null"` to delete it; undefined lets the server's stay.
   */
  settle?(className: string, base: string, mine: string, theirs: string): string | undefined;
  /** X, from which the passphrase's part is made: to open again, in another instance, what is open. */
  derived?(x: Uint8Array): void;
  /** The server asks for a token: the first request, or the last token was refused (`refused`). */
  token(refused: boolean): Promise<string | undefined>;
}

/** How the core is opened. Everything was checked for its presence and type on this side. */
export interface CoreOptions {
  org: string;
  account: string;
  /** The schema as JSON. */
  schema: string;
  mode: "synced" | "incognito" | "avion";
  /** The URL of an endpoint, or an adapter object. */
  server: string | Adapter | undefined;
  passphrase: string | undefined;
  /** 32 bytes, in the passphrase's place. */
  key: Uint8Array | undefined;
  /** X as {@link Host.derived} told it, in the passphrase's place: of a store that opens by a passphrase. */
  derived?: Uint8Array | undefined;
  /** Whether the core does without a device, for now: it could not be opened. */
  inMemory?: boolean | undefined;
  /** Databases in the place of the origin's: those of a rehearsal. */
  databases?: IDBFactory | undefined;
  /** Whether `Host.token` can be asked for one. */
  hasToken: boolean;
  /** Milliseconds between two pulls while changes are not told as they happen. */
  pollEveryMs?: number | undefined;
  format: "msgpack" | "json";
  /** The policy of each class that settles its conflicts, as JSON: ask, server, client, merge or custom. */
  policies: string;
}

/** What became of an operation. */
export type OperationNews =
  | { kind: "saved"; id: string; where: "device" | "memory" }
  | { kind: "accepted"; id: string; v: number; value?: unknown }
  /** It was given up: a conflict was settled for the server. */
  | { kind: "failed"; id: string; error: CoreError }
  /** The server refused it for good: it is parked. */
  | { kind: "refused"; id: string; error: CoreError }
  /** A conflict was settled: another operation stands in its place. */
  | { kind: "amended"; id: string; by: string };

/** A document that an optimistic part may read. */
export interface KnownDocument {
  class: string;
  key: string[];
  state: Record<string, unknown> | null;
}

/** What an optimistic part does, or the documents that it must know first: it is then run again. */
export interface OptimisticOutcome {
  changes?: (
    | { class: string; key: string[]; put: Record<string, unknown> }
    | { class: string; key: string[]; set: Record<string, unknown>; unset?: string[] }
    | { class: string; key: string[] }
  )[];
  wants?: [className: string, key: string[]][];
}

/** An operation that is not over. */
export interface CoreOperation {
  id: string;
  name: string;
  args: Record<string, unknown>;
  /** Milliseconds since 1970 by the device's clock. */
  at: number;
  state: "unsaved" | "saved" | "held" | "accepted" | "refused";
  error?: CoreError;
  /** The server's document, of an operation refused for what that has become; `data` is null where it is deleted. */
  theirs?: { class: string; v: number; data: Record<string, unknown> | null };
}

/** A past state of a document, or what led to it. */
export interface PastAction {
  /** Its number in the journal. */
  rowid: number;
  op: string;
  type: "create" | "update" | "persist";
  at: number;
  /** The version that the server gave; null until it has accepted. */
  commit: number | null;
  /** Of `persist`: the whole state; null where it is deleted. */
  data: Record<string, unknown> | null;
}

/** A server reached by the application's own means. Messages are plain objects in the protocol's JSON form. */
export interface Adapter {
  /** Sends a SyncRequest; resolves with a SyncReply as an object, as JSON text, or as msgpack bytes. A rejection
   * with `{ code, status, retryAfter }` is understood as the fault of that code. */
  sync(request: object): Promise<object | string | Uint8Array>;
  /** Listens for changes of these defs, from now on and in place of the last call's; `on` takes server frames,
   * in any of the three forms. Returns how to stop. May be absent: the session then pulls every 5 minutes. */
  listen?(defs: string[], on: (frame: object | string | Uint8Array) => void): (() => void) | void;
}

/** What is held for a def. */
export interface Listing {
  /** One id for each living member; those that rest together side by side. */
  ids: Uint32Array;
  /** Whether a whole load has ended once. */
  ready: boolean;
  /** The collection's version; 0 before the first load has ended. */
  v: number;
}

/**
 * A row of what `Core.read` gives: the data, in which bytes are `{"$bytes": base64url}`, without its release, which is
 * told where it is not that of the class.
 */
export type ReadRow = [id: number, data: Record<string, unknown>, release?: number];

/** The core's status, as it crosses. */
export interface CoreStatus {
  mode: "synced" | "incognito" | "avion";
  phase: "opening" | "loading" | "live" | "offline" | "paused" | "avion" | "closed";
  /** How changes are heard of: told as they happen, or pulled at intervals; null where this session asks no server. */
  updates: "pushed" | "polled" | null;
  /** Whether this session talks to the server; where it does not, that of another tab does. */
  leads: boolean;
  /** Operations not yet accepted. */
  pending: number;
  /** Of the running first load: documents received, and how many there are where the server said it. */
  progress: { received: number; total: number | null } | null;
  storage: "ok" | "memory" | "full" | "lost" | "none";
  /** Records found damaged and not fetched again yet; operations that may be lost with the newest records. */
  damaged: { documents: number; collections: number; operations: number };
  /** The last error that concerns no call, as {@link CoreError}. */
  error: CoreError | null;
  /** Defs that the server refused, each with why. */
  faults: Record<string, CoreError>;
}

/** An error as it crosses: thrown by every method as an object of this shape. */
export interface CoreError {
  code: string;
  kind: string;
  retryable: boolean;
  message: string;
  cure: string;
}

/** An open session. Every method may be called at any time; after `close`, each fails with `closed`. */
export interface Core {
  /** The def of a match, given as JSON: `{}`, `{"section": "x"}`, `{"key": ["x"]}`. */
  def(className: string, match: string): string;
  subscribe(def: string): void;
  /** Ends the subscription; what no other def holds leaves the memory and the device. */
  unsubscribe(def: string): void;
  subscriptions(): string[];
  list(def: string): Listing;
  /** JSON text of an array of {@link ReadRow}, in the order of the ids; ids of no use any more are left out. */
  read(ids: Uint32Array): Promise<string>;
  /** The id of a document by its key properties, so many of them, joined with `/`; 0 where it is not held. */
  find(className: string, key: string, parts: number): number;
  /** The ids of the documents of a class that satisfy all the predicates, given as JSON: `[[index, op, value]]`. */
  query(className: string, predicates: string): Promise<Uint32Array>;
  /** A document's version, and whether operations on it wait. */
  meta(id: number): { v: number; pending: boolean; deleted: boolean } | undefined;
  /** Issues an operation, both arguments as JSON; options are `{ touches?: [[class, key]], after?: [id] }`. Gives its
   * id. Throws before anything is written. */
  write(name: string, args: string, options: string): string;
  /** Issues a refused operation again, with other arguments as JSON or the same. Gives the new one's id. */
  amend(id: string, args: string | undefined): string;
  discard(id: string): void;
  /** JSON text of an array of {@link CoreOperation}, in order. */
  operations(): string;
  lostByServer(): string[];
  /** JSON text of an array of {@link PastAction}, the oldest first. */
  history(className: string, key: string[]): Promise<string>;
  /** `{ count?, before?, days?, max?, apply? }` as JSON. Gives `{ removed, rowids }` as JSON. */
  sweep(options: string): Promise<string>;
  setMode(mode: string): Promise<void>;
  changePassphrase(old: string, next: string): Promise<void>;
  /** Resolves once everything that is held is on the device. */
  flush(): Promise<void>;
  /** Forgets the key and everything in memory, in every tab; the session is closed. */
  lock(): Promise<void>;
  /** Closes, in every tab, and deletes the store from the device. */
  wipe(): Promise<void>;
  close(): Promise<void>;
  /** What rests on the device, for inspectors: table, record key in hex, bytes, at most `limit` records. */
  inspect(limit: number): Promise<{ name: string; records: { table: string; key: string; bytes: Uint8Array }[]; counts: Record<string, number>; bytes: number }>;
  /** Every collection in memory: for inspectors. */
  memory(): { documents: number; collections: { def: string; v: number; size: number; ready: boolean }[] };
}

/** How an instance of the wasm died. */
export interface Death {
  /** What was thrown out of it. */
  error: unknown;
  /** Settles once what only it held is let go: connections and locks. */
  released: Promise<void>;
}

/** The glue that wasm-bindgen generates, for one instance of the wasm. */
export interface Glue {
  /**
   * Calls back where the instance dies, which is then of no use, and what it had promised stays open. Gives how to be told
   * no more: a promise would hold who waits for it as long as the instance lives.
   */
  onDeath?(this: void, listener: (death: Death) => void): () => void;
  /** Whether it has died, or was ended; known at once. */
  isDead?(this: void): boolean;
  /** Ends the instance, and overwrites its memory; resolves once all is let go that it held. */
  end?(this: void): Promise<void>;
  default(input: { module_or_path: unknown }): Promise<unknown>;
  open(options: CoreOptions, host: Host): Promise<Core>;
  /** Deletes the store of an org and account, if there is one; `store_in_use` where somebody has it open. */
  wipe(org: string, account: string): Promise<void>;
}
