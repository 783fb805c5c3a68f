/** The entry functions of the package: `init`, `open` and `wipe`, on the page's one wasm. */

import { makeGlue } from "./escale.js";
import { openWith } from "./session/open.js";
import type { Operations } from "./writes/operation-types.js";
import type { OpenOptions, WipeOptions } from "./session/options.js";
import { rehearseAhead } from "./wasm/rehearsal.js";
import type { SchemaDeclaration } from "./schema/schema-types.js";
import type { Session } from "./session/session.js";
import { Wasm, type InitInput } from "./wasm/wasm.js";
import { wipeWith } from "./session/wipe.js";

/** @internal Bundlers recognise this form of URL: they copy the file and insert its address here. */
export const wasm = /* @__PURE__ */ new Wasm(makeGlue, () => new URL("./escale_bg.wasm", import.meta.url));

/** Options of `init`, besides the source of the wasm. */
export interface InitOptions {
  /** Whether to rehearse an opening; the default is `true`. */
  rehearsal?: boolean | undefined;
}

let rehearsed: Promise<void> | undefined;

/**
 * Opens a session: loads the wasm, opens the device's store, and resolves without waiting for the network.
 *
 *     const session = await open({ org: "demo", schema, server: "http://localhost:7700", passphrase });
 */
export function open<S extends SchemaDeclaration, O extends Operations<S> = Operations<S>>(
  options: OpenOptions<S, O>,
): Promise<Session<S, O>> {
  return openWith(wasm, options);
}

/**
 * Deletes everything that the device stores for an org and account, without a session or passphrase. Use it if the
 * passphrase is forgotten, if the store is damaged, or when the user leaves a machine. Without a store it does nothing.
 * While this page or another tab has the store open, it fails with `store_in_use` and removes nothing.
 *
 *     await wipe({ org: "demo" });
 */
export function wipe(options: WipeOptions): Promise<void> {
  return wipeWith(wasm, options);
}

/**
 * Loads the wasm ahead of `open`, from the file next to this package or from `input`, and rehearses an opening.
 *
 * The rehearsal exists because browsers compile each function at its first call, which is a large part of the cost of a
 * first opening. On a desktop it takes less than a tenth of a second of the page's thread, in pieces with pauses for
 * the page. It runs in its own instance with its own databases in memory, and needs no network. A failure of it has no
 * effect. `init(input, { rehearsal: false })` leaves it out.
 *
 * Calling `init` is optional; calling it again does nothing. Called while the page waits, for a passphrase for example,
 * it saves a third to a half of the first `open`'s time. If `open` follows at once, `init` only delays it. Fails with
 * `wasm_failed`, `wasm_forbidden` or `bad_option`, as `open` then does.
 */
export async function init(input?: InitInput, { rehearsal = true }: InitOptions = {}): Promise<void> {
  await wasm.start(input);
  if (rehearsal) await (rehearsed ??= rehearseAhead(wasm));
}
