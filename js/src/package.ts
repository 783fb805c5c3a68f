import { makeGlue } from "./escale.js";
import { openWith } from "./open.js";
import type { Operations } from "./operation-types.js";
import type { OpenOptions, WipeOptions } from "./options.js";
import type { SchemaDeclaration } from "./schema-types.js";
import type { Session } from "./session.js";
import { Wasm, type InitInput } from "./wasm.js";
import { wipeWith } from "./wipe.js";

/** @internal Bundlers know this form: they copy the file and put its address here. */
export const wasm = /* @__PURE__ */ new Wasm(makeGlue, () => new URL("./escale_bg.wasm", import.meta.url));

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
 * Loads the wasm ahead of `open`, or from elsewhere than the file beside this package. Calling it is optional, and
 * calling it again does nothing.
 */
export async function init(input?: InitInput): Promise<void> {
  await wasm.start(input);
}
