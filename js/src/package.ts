import { makeGlue } from "./escale.js";
import { openWith } from "./open.js";
import type { Operations } from "./operation-types.js";
import type { OpenOptions, WipeOptions } from "./options.js";
import { rehearseAhead } from "./rehearsal.js";
import type { SchemaDeclaration } from "./schema-types.js";
import type { Session } from "./session.js";
import { Wasm, type InitInput } from "./wasm.js";
import { wipeWith } from "./wipe.js";

/** @internal Bundlers know this form: they copy the file and put its address here. */
export const wasm = /* @__PURE__ */ new Wasm(makeGlue, () => new URL("./escale_bg.wasm", import.meta.url));

/** What `init` does besides loading the wasm. */
export interface InitOptions {
  /** Whether an opening is rehearsed: `true` unless said otherwise. */
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
 * Deletes from the device all that rests there for an org and account, with no session and no passphrase: for when
 * the passphrase is forgotten, the store is damaged, or the user leaves a machine. Where nothing rests it does
 * nothing. While this page or another tab has the store open it fails with `store_in_use` and removes nothing.
 *
 *     await wipe({ org: "demo" });
 */
export function wipe(options: WipeOptions): Promise<void> {
  return wipeWith(wasm, options);
}

/**
 * Loads the wasm ahead of `open`, or from elsewhere than the file beside this package, and rehearses an opening: browsers
 * compile each function when it is first called, and code that runs for the first time is a large part of what a first
 * opening costs. The rehearsal takes less than a tenth of a second of the page's thread on a desk, in pieces between which the
 * page goes on; it runs in an instance and in databases of its own, in memory, needs no network, and what goes wrong in it
 * concerns nobody. `init(input, { rehearsal: false })` does without.
 *
 * Calling it is optional, and calling it again does nothing. Called while the page waits for something else, as for a
 * passphrase, it spares the first `open` a third to a half of its time; where `open` is called at once, it only delays it.
 * Fails with `wasm_failed`, `wasm_forbidden` or `bad_option`, as `open` then does.
 */
export async function init(input?: InitInput, { rehearsal = true }: InitOptions = {}): Promise<void> {
  await wasm.start(input);
  if (rehearsal) await (rehearsed ??= rehearseAhead(wasm));
}
