/** The options of `open` and `wipe`, and their checks. An option that cannot be used is refused by its name. */

import { isBytes } from "../base/bytes.js";
import { policiesOf } from "../writes/application.js";
import type { Adapter, CoreOptions } from "../wasm/core.js";
import { raise, type EscaleError } from "../base/errors.js";
import type { Conflicts, Operations } from "../writes/operation-types.js";
import { checkOperations } from "../writes/operations.js";
import { Schema } from "../schema/schema.js";
import type { Door, PasskeySource } from "./entry.js";
import type { FilesSource } from "./files.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import type { Mode } from "./status.js";
import { checkToken, type TokenSource } from "./token.js";
import { checkUnicode } from "../base/unicode.js";

/** Shortest interval of polling: the bound of `src/limits.rs`. */
const POLL_EVERY_LEAST_MS = 1_000;
/** Characters of an org's code or an account: the bound of `src/limits.rs`. */
const TEXT_CHARS_MAX = 1_024;
const KEY_BYTES = 32;
const MODES: readonly string[] = ["synced", "incognito", "avion"] satisfies Mode[];

/** The options of `open`. */
export interface OpenOptions<
  S extends SchemaDeclaration = SchemaDeclaration,
  O extends Operations<S> = Operations<S>,
> {
  /** The org's code: the tenant whose data this is. */
  org: string;
  /** The result of {@link defineSchema}. */
  schema: Schema<S>;
  /** The endpoint's URL, or an adapter object. Required unless the session opens in `avion`. */
  server?: string | URL | Adapter | undefined;
  /** The default is `synced`. */
  mode?: Mode | undefined;
  /** Opens the device's store. Not needed in `incognito`. */
  passphrase?: string | undefined;
  /** 32 bytes, to use instead of a passphrase. */
  key?: Uint8Array | undefined;
  /** The owner of the data, if several people share a device. */
  account?: string | undefined;
  /** A bearer token, or a function that fetches one. */
  token?: string | TokenSource | undefined;
  /** The `accounts` of `escale/accounts`, instead of a token: `account` is then the login. */
  accounts?: Door | undefined;
  /** With `accounts`: the `passkeys` of `escale/passkeys`, instead of the passphrase. */
  passkey?: PasskeySource | undefined;
  /** With `accounts`: the name under which the list of devices shows this one. */
  device?: string | undefined;
  /** Loads the module of files: `() => import("escale/files")`. It is called on first use. */
  files?: FilesSource | undefined;
  /**
   * Milliseconds between two pulls while the server does not push changes, because it has no socket or the socket is
   * closed. The default is 30,000, the minimum 1,000.
   */
  pollEveryMs?: number | undefined;
  /** The encoding of messages; the default is `msgpack`. */
  format?: "msgpack" | "json" | undefined;
  /** Application-defined operations, with their effects before the server has answered. */
  operations?: O | undefined;
  /** The conflict policy of each class; the default is `overwrite`. */
  conflicts?: Conflicts<S> | undefined;
}

/** The options of `wipe`. They name the store as the options of `open` did. */
export interface WipeOptions {
  /** The org's code. */
  org: string;
  /** The account, if `open` had one. */
  account?: string | undefined;
}

const KNOWN: Record<keyof OpenOptions, true> = {
  org: true,
  schema: true,
  server: true,
  mode: true,
  passphrase: true,
  key: true,
  account: true,
  token: true,
  accounts: true,
  passkey: true,
  device: true,
  files: true,
  pollEveryMs: true,
  format: true,
  operations: true,
  conflicts: true,
};
const WIPE_KNOWN: Record<keyof WipeOptions, true> = { org: true, account: true };

/** Checks the options and gives them as the core takes them. An unusable option is refused by its name. */
export function checkOptions(options: OpenOptions): CoreOptions {
  checkNames("open", options, KNOWN);
  const { schema, passphrase, key, token, accounts, files, format = "msgpack" } = options;
  if (!(schema instanceof Schema)) throw bad("schema: must come from defineSchema");
  if (format !== "msgpack" && format !== "json") throw bad("format: must be msgpack or json");
  if (token !== undefined && typeof token !== "string" && typeof token !== "function") {
    throw bad("token: must be a string, or a function that fetches one");
  }
  if (typeof token === "string") checkToken(token);
  const mode = checkMode(options.mode ?? "synced");
  const server = checkServer(options.server);
  if (server === undefined && mode !== "avion") {
    throw bad(`server: ${mode} needs a URL or an adapter object`);
  }
  if (files !== undefined && typeof files !== "function") throw bad('files: must be a function, () => import("escale/files")');
  if (accounts && (token !== undefined || key !== undefined)) throw bad("accounts: instead of token and key");
  if (!accounts || !options.passkey) checkSecret(accounts ? "synced" : mode, passphrase, key);
  checkOperations(options.operations);
  return {
    ...checkOwner(options),
    schema: JSON.stringify(schema),
    mode,
    server,
    passphrase,
    // A copy, so that the application may overwrite its own.
    key: key && Uint8Array.from(key),
    hasFiles: files !== undefined,
    hasToken: token !== undefined || accounts !== undefined,
    pollEveryMs: checkPollEvery(options.pollEveryMs),
    format,
    policies: policiesOf(schema, options.conflicts),
  };
}

/** Checks the options of `wipe`, and gives the owner of the store. */
export function checkWipe(options: WipeOptions): { org: string; account: string } {
  checkNames("wipe", options, WIPE_KNOWN);
  return checkOwner(options);
}

/** Gives the mode, or throws if it is none. */
export function checkMode(mode: unknown): Mode {
  if (typeof mode !== "string" || !MODES.includes(mode)) throw bad("mode: must be synced, incognito or avion");
  return mode as Mode;
}

function checkPollEvery(ms: unknown): number | undefined {
  if (ms === undefined || (typeof ms === "number" && Number.isInteger(ms) && ms >= POLL_EVERY_LEAST_MS && ms < 2 ** 32)) return ms;
  throw bad(`pollEveryMs: must be a whole number from ${POLL_EVERY_LEAST_MS}`);
}

/** Gives the passphrase, or throws if it is none. */
export function checkPassphrase(name: string, passphrase: unknown): string {
  if (typeof passphrase !== "string" || passphrase === "") throw bad(`${name}: must be a string, not empty`);
  return checkUnicode(passphrase, name, "bad_option");
}

function checkNames(method: string, options: unknown, known: object): void {
  if (typeof options !== "object" || options === null) throw bad(`${method} takes an object of options`);
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(known, name)) throw bad(`no option of ${method} is called ${name}`);
  }
}

function checkOwner({ org, account }: WipeOptions): { org: string; account: string } {
  const name = checkText("org", org, 1);
  // A store is named after both, with a slash between them: two accounts must not share one.
  if (name.includes("/")) throw bad("org: has no slash in it");
  return { org: name, account: checkText("account", account ?? "", 0) };
}

function checkSecret(mode: Mode, passphrase: unknown, key: unknown): void {
  if (passphrase !== undefined) checkPassphrase("passphrase", passphrase);
  if (key !== undefined && !(isBytes(key) && key.length === KEY_BYTES)) {
    throw bad(`key: must be a Uint8Array of ${KEY_BYTES} bytes`);
  }
  if (passphrase !== undefined && key !== undefined) throw bad("passphrase and key: give one of them");
  if (mode !== "incognito" && passphrase === undefined && key === undefined) {
    throw bad(`passphrase: ${mode} needs it, or a key`);
  }
}

/** Gives the server as the core takes it, or throws if it is none. */
function checkServer(server: unknown): string | Adapter | undefined {
  if (server === undefined) return undefined;
  if (typeof server === "string" || server instanceof URL) return checkUrl(String(server));
  if (typeof server !== "object" || server === null) throw bad("server: must be a URL or an adapter object");
  const { sync, listen } = server as Partial<Record<keyof Adapter, unknown>>;
  if (typeof sync !== "function") throw bad("server: an adapter object has a method sync");
  if (listen !== undefined && typeof listen !== "function") throw bad("server: listen must be a method");
  return server as Adapter;
}

function checkUrl(text: string): string {
  let url: URL;
  try {
    // A page may give its own server by a path.
    url = new URL(text, globalThis.location?.href);
  } catch {
    throw bad("server: not a URL");
  }
  const { protocol, search, hash, username, password } = url;
  if (!/^https?:$/.test(protocol) || search || hash || username || password) {
    throw bad("server: must be http or https, without a query, a fragment, a name and a password");
  }
  return url.href.replace(/\/+$/, "");
}

function checkText(name: string, text: unknown, least: number): string {
  if (typeof text !== "string" || text.length < least || text.length > TEXT_CHARS_MAX) {
    throw bad(`${name}: must be a string of ${least} to ${TEXT_CHARS_MAX} characters`);
  }
  return checkUnicode(text, name, "bad_option");
}

function bad(what: string): EscaleError {
  return raise("bad_option", what);
}
