// The session of the page, and its writes. `npm run types` makes classes.ts of schema.json.
import { defineSchema, init, newId, open, type OpenOptions, type Session, type StatusValue } from "escale";
import { advice } from "escale/advice";
import { rehearsal } from "escale/rehearsal";
import { values } from "escale/values";

import { classes, type Todo } from "./classes";

// With `values`, a write that breaks a rule of schema.json fails at the call. The server refuses it, too.
export const schema = defineSchema(classes, { values });
export type AppSession = Session<typeof classes>;

/** The documents that the page shows. */
export const HOME = { list: "home" };

// While the user types, the wasm is loaded and its code compiled. A failure is reported by `open`.
init(undefined, { rehearsal }).catch(() => {});

/** The server, and the org whose data the page shows. */
export const PLACE = { org: "demo", server: import.meta.env.VITE_ESCALE_SERVER as string };

/**
 * Opens the sealed data of this browser, or makes a place for it. The first passphrase becomes the passphrase. `more` has
 * other options of `open`.
 */
export function openSession(passphrase: string, more: Partial<OpenOptions<typeof classes>> = {}): Promise<AppSession> {
  return open({ ...PLACE, schema, passphrase, ...more });
}

// Each write is shown at once and saved on the device. It is sent when there is a network.
export function add(session: AppSession, text: string): void {
  session.put("Todo", { id: newId(), ...HOME, text, done: false });
}

export function toggle(session: AppSession, todo: Todo): void {
  session.patch("Todo", [todo.id], { done: !todo.done });
}

export function remove(session: AppSession, todo: Todo): void {
  session.delete("Todo", [todo.id]);
}

const PHASES: { [phase in StatusValue["phase"]]: string } = {
  opening: "Opening",
  loading: "Loading",
  live: "In step with the server",
  offline: "Offline",
  paused: "Paused",
  avion: "Offline by choice",
  closed: "Closed",
};

/** Why the session is over: this tab, another one or the server ended it. */
const ENDS: { [reason in NonNullable<StatusValue["reason"]>]: string } = {
  closed: "Closed",
  locked: "Locked",
  wiped: "Deleted from this device",
  revoked: "Signed out from another device",
  barred: "The account is closed",
};

/** The status as a sentence for the user. */
export function describe({ phase, reason, pending, error }: StatusValue): string {
  const waiting = pending > 0 ? `, ${pending} to send` : "";
  const trouble = error && phase !== "offline" ? `. ${advice(error)}` : "";
  return `${reason ? ENDS[reason] : PHASES[phase]}${waiting}${trouble}`;
}
