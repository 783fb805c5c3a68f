/** The parts that a session consists of. */

import type { Device } from "../wasm/device.js";
import type { Core } from "../wasm/core.js";
import type { Documents } from "../views/documents.js";
import type { Living } from "../wasm/living.js";
import type { AccountEntry } from "./entry.js";
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
  living: Living;
  /** Decides where the core works. */
  device: Device;
  /** The account that the session has entered, if it has any. */
  entry: AccountEntry | undefined;
  /** Clears the secrets with which the core could be opened again. */
  forgetSecrets: () => void;
}
