/**
 * The errors that a visitor can meet, in a visitor's words. If the error itself knows more, the cure is taken from it.
 */

import { EscaleError } from "escale";

/** The action of a button under an error. */
export type Remedy = "retry" | "open-synced" | "open-incognito" | "erase" | "reload";

/** An error, ready to be shown. */
export interface Problem {
  /** The stable name, which developers look up. */
  code: string;
  title: string;
  text: string;
  remedies: readonly Remedy[];
}

const KNOWN: Readonly<Record<string, Omit<Problem, "code">>> = {
  wrong_passphrase: {
    title: "Wrong passphrase",
    text: "It does not open the store that rests on this device. Nothing was changed. Try again; a forgotten passphrase cannot be recovered, only erased together with what it protects.",
    remedies: ["erase"],
  },
  store_damaged: {
    title: "The store on this device is damaged",
    text: "Its header cannot be read, so its key cannot be had. Erase it and open synced: everything is loaded again from the server.",
    remedies: ["erase"],
  },
  no_store: {
    title: "No store on this device yet",
    text: "Avion opens the data stored on the device, and there is none. Open once in synced mode, follow something, then fly.",
    remedies: ["open-synced"],
  },
  store_in_use: {
    title: "Another tab has this store open",
    text: "It must close the store before the store can be erased. Close or lock the other tab, then try again.",
    remedies: ["retry", "open-incognito"],
  },
  insecure_context: {
    title: "This page is not in a secure context",
    text: "Browsers encrypt only on https or localhost. Serve the page that way, or open in incognito, which writes nothing.",
    remedies: ["open-incognito"],
  },
  wasm_forbidden: {
    title: "WebAssembly is forbidden here",
    text: "The page's security policy, or the browser's settings, do not let WebAssembly run. Add 'wasm-unsafe-eval' to script-src in the page's Content-Security-Policy.",
    remedies: ["reload"],
  },
  wasm_failed: {
    title: "The core could not be loaded",
    text: "The .wasm file did not arrive whole. Check that it is served, then try again.",
    remedies: ["retry", "reload"],
  },
  store_too_new: {
    title: "The store is newer than this page",
    text: "A newer version of the page wrote it; it was left untouched. Reload to get that version.",
    remedies: ["reload"],
  },
  schema_mismatch: {
    title: "The store does not fit this page",
    text: "What rests on the device was written under another schema. Erase it and load everything again.",
    remedies: ["erase"],
  },
  storage_full: {
    title: "No room left on this device",
    text: "Free some space, or unfollow something; or open in incognito, which writes nothing.",
    remedies: ["retry", "open-incognito"],
  },
  storage_closed: {
    title: "The browser's storage cannot be reached",
    text: "It may pass: try again, or reload the page. In incognito nothing is written, and it works without.",
    remedies: ["retry", "reload", "open-incognito"],
  },
  storage_failed: {
    title: "The browser's storage failed",
    text: "Reload the page. If it lasts, this browser's storage is out of order, or switched off: open in incognito.",
    remedies: ["reload", "open-incognito"],
  },
  panicked: {
    title: "The core stopped on a bug",
    text: "What rests on the device is safe. Reload the page and open again; please report the message.",
    remedies: ["reload"],
  },
};

/** The problem to show for anything that was thrown. */
export function problemOf(thrown: unknown): Problem {
  const code = thrown instanceof EscaleError ? thrown.code : "internal";
  const known = KNOWN[code];
  if (known) return { code, ...known };
  const title = code.charAt(0).toUpperCase() + code.slice(1).replaceAll("_", " ");
  if (thrown instanceof EscaleError) {
    return { code, title, text: `${thrown.message}. ${thrown.cure}`, remedies: ["retry"] };
  }
  const text = thrown instanceof Error ? thrown.message : "Something failed that cannot fail.";
  return { code, title: "Something went wrong", text, remedies: ["retry", "reload"] };
}

/** The label of each remedy's button. */
export const REMEDY_LABEL: Readonly<Record<Remedy, string>> = {
  retry: "Try again",
  "open-synced": "Open synced",
  "open-incognito": "Open in incognito",
  erase: "Erase the store...",
  reload: "Reload the page",
};
