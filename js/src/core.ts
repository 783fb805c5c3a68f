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
  /** Whether `Host.token` can be asked for one. */
  hasToken: boolean;
  format: "msgpack" | "json";
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

/** A row of what `Core.read` gives: id, pk, v, and the data, in which bytes are `{"$bytes": base64url}`. */
export type ReadRow = [id: number, pk: string, v: number, data: Record<string, unknown>];

/** The core's status, as it crosses. */
export interface CoreStatus {
  mode: "synced" | "incognito" | "avion";
  phase: "opening" | "loading" | "live" | "offline" | "paused" | "avion" | "closed";
  /** Operations not yet accepted. */
  pending: number;
  /** Of the running first load: documents received, and how many there are where the server said it. */
  progress: { received: number; total: number | null } | null;
  storage: "ok" | "memory" | "full" | "lost" | "none";
  /** Records found damaged and not fetched again yet. */
  damaged: { documents: number; collections: number };
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
  /** The id of a document by its key properties; 0 where it is not held. */
  find(className: string, key: string[]): number;
  /** The ids of the documents of a class that satisfy all the predicates, given as JSON: `[[index, op, value]]`. */
  query(className: string, predicates: string): Promise<Uint32Array>;
  /** The pending operations of a document (always false until writes exist), and whether it is a tombstone. */
  meta(id: number): { v: number; pending: boolean; deleted: boolean } | undefined;
  setMode(mode: string): Promise<void>;
  changePassphrase(old: string, next: string): Promise<void>;
  /** Forgets the key and everything in memory; the session is closed. */
  lock(): Promise<void>;
  /** Closes, and deletes the store from the device. */
  wipe(): Promise<void>;
  close(): Promise<void>;
  /** What rests on the device, for inspectors: table, record key in hex, bytes, at most `limit` records. */
  inspect(limit: number): Promise<{ name: string; records: { table: string; key: string; bytes: Uint8Array }[]; counts: Record<string, number>; bytes: number }>;
  /** Every collection in memory: for inspectors. */
  memory(): { documents: number; collections: { def: string; v: number; size: number; ready: boolean }[] };
}

/** The glue that wasm-bindgen generates, as this package imports it. */
export interface Glue {
  default(input: { module_or_path: unknown }): Promise<unknown>;
  open(options: CoreOptions, host: Host): Promise<Core>;
  /** Deletes the store of an org and account, if there is one; `store_in_use` where somebody has it open. */
  wipe(org: string, account: string): Promise<void>;
  /** Names and texts of every error code, as JSON: `[{code, kind, retryable, cure}]`. */
  error_codes(): string;
  version(): string;
}
