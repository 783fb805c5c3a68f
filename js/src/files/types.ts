/** The types that an application meets. */

import type { EscaleError } from "../base/errors.js";
import type { ClassName, FileRef, MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import type { Stop } from "../views/view.js";

/** The state of a file, as this device sees it. */
export interface FileState {
  /**
   * `none`: nothing is under way, and bytes are missing here. `waiting`: it is to be sent or loaded, once the server can
   * be reached. `loading` and `sending`: under way. `here`: all bytes are on the device. `full`: the device has no room for
   * it, and it goes on once there is room. `failed`: see `error`.
   */
  readonly phase: "none" | "waiting" | "loading" | "sending" | "here" | "full" | "failed";
  /** The bytes on the device. */
  readonly here: number;
  /** The bytes of the file. */
  readonly of: number;
  /** While it is sent: the bytes that the server has. */
  readonly sent?: number;
  readonly error?: EscaleError;
}

/** The files of some documents, to be kept. */
export interface KeepMatch<S extends SchemaDeclaration = SchemaDeclaration, C extends ClassName<S> = ClassName<S>> {
  readonly class: C;
  /** The documents, as for `live`. */
  readonly match: MatchOf<S[C]>;
  /** The properties whose files are kept. By default all of the types `file` and `file[]`. */
  readonly properties?: readonly string[];
  /** Larger files are not kept. */
  readonly max?: number;
}

/** A {@link KeepMatch} of any class. */
export interface KeptMatch {
  readonly class: string;
  readonly match: Readonly<Record<string, unknown>>;
  readonly properties?: readonly string[];
  readonly max?: number;
}

/** A rule that keeps files on the device. It survives openings. */
export interface Keep {
  readonly id: string;
  /** The file or the match, as `keep` was given it. */
  readonly what: FileRef | KeptMatch;
  /** Resolves once the rule rests on the device. Rejects if the device refused it; `status.error` tells that, too. */
  readonly saved: Promise<void>;
  /** Ends it. The bytes become a cache. */
  release(): void;
}

/** Bytes on the device, by their reason. */
export interface FilesUsage {
  /** The application added them in the last day, or an operation references them that the server has not accepted. */
  readonly pending: number;
  /** Local documents reference them. */
  readonly local: number;
  /** A rule keeps them. */
  readonly kept: number;
  /** Nothing keeps them: the least recently read go first. */
  readonly cached: number;
}

/** Bytes that documents reference, sealed on the device, of any size. */
export interface Files<S extends SchemaDeclaration = SchemaDeclaration> {
  /** Adds a file. Resolves once it is sealed on the device; a document may reference it from then on. */
  add(data: Blob | Uint8Array | ReadableStream<Uint8Array>, about?: { readonly type?: string; readonly name?: string }): Promise<FileRef>;
  /**
   * The bytes from `from` up to, and without, `to`. They are checked before they are shown. Those that the device lacks
   * are loaded.
   */
  read(ref: FileRef, range?: { readonly from?: number; readonly to?: number }): ReadableStream<Uint8Array>;
  /** All bytes of a file of at most 64 MiB. */
  bytes(ref: FileRef): Promise<Uint8Array<ArrayBuffer>>;
  /** Keeps one file, or the present files of the documents of a match, on the device. */
  keep<C extends ClassName<S>>(what: FileRef | KeepMatch<S, C>): Keep;
  /** The rules, those of earlier openings too. */
  keeps(): readonly Keep[];
  state(ref: FileRef): FileState;
  /** Calls back with the state at once, then at every change. */
  subscribe(ref: FileRef, callback: (state: FileState) => unknown): Stop;
  /** The application needs an added file no more: only documents and rules keep it from now on. */
  discard(ref: FileRef): void;
  /** Complete in the session that leads (`status.leads`). Another one does not know all operations. */
  usage(): Promise<FilesUsage>;
}
