/** Opening the session, and erasing what it leaves: the one place that says of what, and how. */

import { init, open, wipe, type Adapter, type Mode, type Session as EscaleSession, type StatusValue } from "escale";
import { schema } from "./schema";

export type { Adapter, Mode, StatusValue };

/** A session on the demonstration's data. */
export type Session = EscaleSession<(typeof schema)["classes"]>;

/** The org of the demonstration. */
export const ORG = "demo";

/** Loads the core, and rehearses, while the visitor types. What fails here fails again, with its message, when a session is opened. */
export function loadCore(): void {
  void init().catch(() => {});
}

/** Opens a session; it never waits for the network. */
export function openSession(options: {
  mode: Mode;
  server: string | Adapter;
  passphrase: string;
  token: string | undefined;
}): Promise<Session> {
  const { mode, server, token } = options;
  // Nothing rests in incognito, so that there is nothing for a passphrase to open.
  const passphrase = mode === "incognito" ? undefined : options.passphrase;
  return open({ org: ORG, schema, server, mode, passphrase, token });
}

/** Deletes the store of the demonstration, with no session and no passphrase. */
export function eraseStore(): Promise<void> {
  return wipe({ org: ORG });
}
