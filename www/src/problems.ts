/**
 * The errors that a visitor can meet, in a visitor's words. Those without words of this page have the package's advice.
 */

import { EscaleError } from "escale";
import { advice } from "escale/advice";

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
    text: "It does not open the store on this device. Nothing was changed. Try again. A forgotten passphrase cannot be recovered: you can only erase the store.",
    remedies: ["erase"],
  },
  store_damaged: {
    title: "The store on this device is damaged",
    text: "Its header cannot be read, so its key is lost. Erase the store and open in synced mode: all data is loaded again from the server.",
    remedies: ["erase"],
  },
  no_store: {
    title: "No store on this device yet",
    text: "Avion mode opens the data stored on the device, and there is none. First open in synced mode and follow something.",
    remedies: ["open-synced"],
  },
  store_in_use: {
    title: "Another tab has this store open",
    text: "It must close the store before the store can be erased. Close or lock the other tab, then try again.",
    remedies: ["retry", "open-incognito"],
  },
  insecure_context: {
    title: "This page is not in a secure context",
    text: "Browsers encrypt only on https or localhost. Serve the page from there, or open in incognito, which writes nothing.",
    remedies: ["open-incognito"],
  },
  wasm_forbidden: {
    title: "WebAssembly is forbidden here",
    text: "The page's security policy or the browser's settings forbid WebAssembly. Add 'wasm-unsafe-eval' to script-src in the page's Content-Security-Policy.",
    remedies: ["reload"],
  },
  wasm_failed: {
    title: "The core could not be loaded",
    text: "The .wasm file did not arrive completely. Check that the server has it, then try again.",
    remedies: ["retry", "reload"],
  },
  store_too_new: {
    title: "The store is newer than this page",
    text: "A newer version of the page wrote it, so it was not changed. Reload to get that version.",
    remedies: ["reload"],
  },
  schema_mismatch: {
    title: "The store does not fit this page",
    text: "The data on this device was written under another schema. Erase it, and load everything again.",
    remedies: ["erase"],
  },
  storage_full: {
    title: "No room left on this device",
    text: "Free some space, follow less, or open in incognito, which writes nothing.",
    remedies: ["retry", "open-incognito"],
  },
  storage_closed: {
    title: "The browser's storage cannot be reached",
    text: "This may be temporary: try again, or reload the page. Incognito works without storage.",
    remedies: ["retry", "reload", "open-incognito"],
  },
  storage_failed: {
    title: "The browser's storage failed",
    text: "Reload the page. If that does not help, the browser's storage is broken or switched off: open in incognito.",
    remedies: ["reload", "open-incognito"],
  },
  panicked: {
    title: "The core stopped on a bug",
    text: "The data on this device is safe. Reload the page and open again. Please report the message.",
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
    return { code, title, text: advice(thrown), remedies: ["retry"] };
  }
  const text = thrown instanceof Error ? thrown.message : "An unexpected error occurred.";
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
