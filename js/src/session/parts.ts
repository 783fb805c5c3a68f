/** The parts that a session consists of, and the plain values that it gives. */

import type { Device } from "../wasm/device.js";
import type { Core } from "../wasm/core.js";
import type { Documents } from "../views/documents.js";
import type { Supervisor } from "../wasm/supervisor.js";
import type { AccountEntry } from "./entry.js";
import type { FileLink } from "./file-link.js";
import type { LiveStatus } from "./status.js";
import type { Schema } from "../schema/schema.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import type { Views } from "../views/views.js";

/** The parts that a session consists of. */
export interface Parts<S extends SchemaDeclaration> {
  core: Core;
  schema: Schema<S>;
  /** Whether the session resolves conflicts of a class itself. */
  resolvesConflicts: (className: string) => boolean;
  status: LiveStatus;
  documents: Documents;
  views: Views;
  /** Keeps the core alive. */
  supervisor: Supervisor;
  /** Decides where the core works. */
  device: Device;
  /** The account that the session has entered, if it has any. */
  entry: AccountEntry | undefined;
  /** The link to the module of files, if the session has any. */
  files: FileLink | undefined;
  /** Clears the secrets with which the core could be opened again. */
  forgetSecrets: () => void;
}

/** The counter of a quota, and its limits. */
export interface QuotaState {
  readonly documents: number;
  /** Bytes of their data. */
  readonly bytes: number;
  /** The limits; none without one. */
  readonly documentsMax?: number;
  readonly bytesMax?: number;
}

/** The metadata of a document. */
export interface Meta {
  /** The version of the document. */
  readonly v: number;
  /** Whether an operation on it waits for the server. */
  readonly pending: boolean;
  /** Whether it is a tombstone. */
  readonly deleted: boolean;
}

/** The stored records and the contents of memory, for inspectors. */
export interface Inspection {
  readonly store: Awaited<ReturnType<Core["inspect"]>>;
  readonly memory: ReturnType<Core["memory"]>;
}
