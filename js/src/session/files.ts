/** The part of `escale/files` that a session uses. The main entry holds its types only. */

import type { Adapter } from "../wasm/core.js";
import type { Files } from "../files/types.js";
import type { EscaleError } from "../base/errors.js";
import type { Status } from "./status.js";
import type { Stop } from "../views/view.js";

export type { FileRef } from "../schema/schema-types.js";

/** The `files` of `open`: `() => import("escale/files")`. */
export type FilesSource = () => Promise<FilesModule>;

/** The module `escale/files`. */
export interface FilesModule {
  /** Opens the files of a session. The session calls it once. */
  openFiles(host: FilesHost): Promise<OpenFiles>;
}

/** The files of an open session, as the session drives them. */
export interface OpenFiles {
  /** The application's part. */
  readonly files: Files;
  /** The core waits for a word on these objects, and on no others: their operations cannot be sent before. */
  needed(shas: readonly string[]): void;
  /** The session ends. No secret and no connection stays. */
  end(): void;
}

/** The parts of a session that its files need. */
export interface FilesHost {
  /** The database of the files; undefined in incognito, where bytes stay in memory. */
  readonly name: string | undefined;
  /** The factory of databases. */
  readonly databases: IDBFactory;
  readonly org: string;
  /** The endpoint's URL without a slash at its end, or the adapter. Undefined in avion without one. */
  readonly server: string | Adapter | undefined;
  /** The keys that follow from K, 32 bytes each, to be imported and cleared. Undefined in incognito. */
  keys(): { seal: Uint8Array<ArrayBuffer>; index: Uint8Array<ArrayBuffer> } | undefined;
  /** The session's status: who leads, the mode, whether the server can be reached. */
  readonly status: Status;
  /** The token to send. With `refused`, the one that the server refused: another one, or none. */
  token(refused?: string): Promise<string | undefined>;
  /**
   * The word on objects that the core waits for. `there`: the server confirmed them in that epoch. `absent`: this device
   * does not hold them, and the server decides. Any other: the code of the error for which their operations are parked
   * (`local_data_lost`, `too_large`, `quota_exceeded`, `not_supported`).
   */
  settle(shas: readonly string[], verdict: string, epoch?: readonly [number, string]): void;
  /** The objects that operations on the device reference: never evicted. Complete only in the session that leads. */
  referenced(): readonly string[];
  /** Those of them that local documents reference. */
  local(): readonly string[];
  /** Follows the documents of a match: calls back with all of them at once, then at every change. */
  follow(className: string, match: object, callback: (documents: readonly Record<string, unknown>[]) => void): Stop;
  /** The properties of a class with the type `file` or `file[]`. */
  fileProperties(className: string): readonly string[];
  /** Reports an error that belongs to no call. */
  fail(error: EscaleError): void;
}
