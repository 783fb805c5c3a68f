import * as glue from "./escale.js";
import { openWith } from "./open.js";
import type { Operations } from "./operation-types.js";
import type { OpenOptions } from "./options.js";
import type { SchemaDeclaration } from "./schema-types.js";
import type { Session } from "./session.js";
import { Wasm, type InitInput } from "./wasm.js";

// Bundlers know this form: they copy the file and put its address here.
const wasm = /* @__PURE__ */ new Wasm(glue, () => new URL("./escale_bg.wasm", import.meta.url));

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
 * Loads the wasm ahead of `open`, or from elsewhere than the file beside this package. Calling it is optional, and
 * calling it again does nothing.
 */
export async function init(input?: InitInput): Promise<void> {
  await wasm.start(input);
}
