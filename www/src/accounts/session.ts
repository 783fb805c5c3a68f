/** Opens accounts: the only place that names the org, the schema and the options. */

import { init, open, wipe, type Session as EscaleSession, type StatusValue } from "escale";
import { accounts } from "escale/accounts";
import { rehearsal } from "escale/rehearsal";
import { schema } from "./schema";

export type { StatusValue };

/** A session of an account of this page. */
export type Session = EscaleSession<(typeof schema)["classes"]>;

/** The org of this page. */
export const ORG = "harbour";

/** The visitor's answers that outlive a form: never a secret. */
export interface Draft {
  login: string;
  /** The server's address. */
  server: string;
  /** The name under which the list of devices shows this one. */
  device: string;
}

/** Loads the core while the visitor types. A failure here occurs again, with its message, when a session opens. */
export function loadCore(): void {
  void init(undefined, { rehearsal }).catch(() => {});
}

/** The place of an account, as `escale/accounts` takes it. */
export function placeOf({ server, login }: Draft): { server: string; org: string; account: string } {
  return { server, org: ORG, account: login };
}

/** Opens an account. The first time on a device it asks the server; later it never waits for the network. */
export function openAccount(draft: Draft, passphrase: string, mode: "synced" | "avion"): Promise<Session> {
  const device = draft.device === "" ? undefined : draft.device;
  return open({ ...placeOf(draft), schema, passphrase, accounts, mode, device });
}

/** Deletes the data of an account from this device, without opening it. The account stays. */
export async function eraseAccount(login: string): Promise<void> {
  await wipe({ org: ORG, account: login });
  await accounts.forget({ org: ORG, account: login });
}

const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/Edg\//, "Edge"],
  [/Firefox\//, "Firefox"],
  [/Chrome\//, "Chrome"],
  [/Safari\//, "Safari"],
];

const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/iPhone/, "iPhone"],
  [/iPad/, "iPad"],
  [/Android/, "Android"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "Mac"],
  [/Linux/, "Linux"],
];

/** A name to propose for this device, such as `Firefox on Linux`. */
export function deviceName(agent: string): string {
  const nameOf = (names: readonly (readonly [RegExp, string])[], other: string): string =>
    names.find(([sign]) => sign.test(agent))?.[1] ?? other;
  return `${nameOf(BROWSERS, "Browser")} on ${nameOf(SYSTEMS, "a computer")}`;
}
