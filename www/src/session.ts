/** Opens the session and erases its store: the only place that names the org, the schema and the options. */

import { init, open, wipe, type Adapter, type Mode, type Session as EscaleSession, type StatusValue } from "escale";
import type { Files as FilesOf } from "escale/files";
import { rehearsal } from "escale/rehearsal";
import { schema } from "./schema";

export type { Adapter, Mode, StatusValue };

/** A session on the demonstration's data. */
export type Session = EscaleSession<(typeof schema)["classes"]>;

/** Its files. */
export type Files = FilesOf<(typeof schema)["classes"]>;

/** The org of the demonstration. */
export const ORG = "demo";

/**
 * Loads the core and rehearses while the visitor types. A failure here occurs again, with its message, when a session
 * opens.
 */
export function loadCore(): void {
  void init(undefined, { rehearsal }).catch(() => {});
}

/** Opens a session; it never waits for the network. */
export function openSession(options: {
  mode: Mode;
  server: string | Adapter;
  passphrase: string;
  token: string | undefined;
}): Promise<Session> {
  const { mode, server, token } = options;
  // Nothing is stored in incognito, so a passphrase would open nothing.
  const passphrase = mode === "incognito" ? undefined : options.passphrase;
  return open({ org: ORG, schema, server, mode, passphrase, token, files: () => import("escale/files") });
}

/** Deletes the store of the demonstration, without a session or passphrase. */
export function eraseStore(): Promise<void> {
  return wipe({ org: ORG });
}
