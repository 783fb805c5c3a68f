/** The entry functions of the package: `init`, `open` and `wipe`, on the page's one wasm. */

import { makeGlue } from "./escale.js";
import { raise } from "./base/errors.js";
import { openWith } from "./session/open.js";
import type { Operations } from "./writes/operation-types.js";
import type { OpenOptions, WipeOptions } from "./session/options.js";
import type { SchemaDeclaration } from "./schema/schema-types.js";
import type { Session } from "./session/session.js";
import { Wasm, type InitInput } from "./wasm/wasm.js";
import { wipeWith } from "./session/wipe.js";

/** @internal Bundlers recognise this form of URL: they copy the file and insert its address here. */
export const wasm = /* @__PURE__ */ new Wasm(makeGlue, () => new URL("./escale_bg.wasm", import.meta.url));

/** Options of `init`, besides the source of the wasm. */
export interface InitOptions {
  /** The rehearsal of `escale/rehearsal`, for a page that has time before it opens a session. */
  rehearsal?: ((open: OpenInMemory) => Promise<void>) | false | undefined;
}

/** Opens a session in an instance of the wasm of its own, on the given databases. */
export type OpenInMemory = <S extends SchemaDeclaration>(
  options: OpenOptions<S>,
  databases: IDBFactory,
) => Promise<Session<S>>;

/** By the function: each runs once. */
const rehearsed = new Map<(open: OpenInMemory) => Promise<void>, Promise<void>>();

/**
 * Opens a session: loads the wasm, opens the device's store, and resolves without waiting for the network.
 *
 * @example
 * ```js
 * import { defineSchema, open } from "escale";
 *
 * const schema = defineSchema({ Note: { key: ["id"] } });
 * const session = await open({ org: "demo", schema, server: "http://localhost:7700", passphrase });
 * const stop = session.live("Note", {}, (notes) => render(notes));
 * await session.put("Note", { id: "1", text: "Milk" }).saved;
 * stop();
 * await session.close();
 * ```
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
 * @example
 * ```js
 * import { wipe } from "escale";
 *
 * await wipe({ org: "demo", account: "ada" });
 * ```
 */
export function wipe(options: WipeOptions): Promise<void> {
  return wipeWith(wasm, options);
}

/**
 * Loads the wasm ahead of `open`, from the file next to this package or from `input`.
 *
 * Calling `init` is optional; calling it again does nothing. A page that waits for its user, for a passphrase for example,
 * can also rehearse an opening meanwhile: see {@link InitOptions.rehearsal}.
 *
 * The rehearsal runs in its own instance of the wasm, on its own databases in memory, and needs no network. If `open`
 * follows at once, it only delays it. Fails with `wasm_failed`, `wasm_forbidden` or `bad_option`, as `open` then does.
 *
 * @example
 * ```js
 * import { init } from "escale";
 *
 * await init(); // while the page asks for the passphrase
 * ```
 */
export async function init(input?: InitInput, { rehearsal }: InitOptions = {}): Promise<void> {
  if (rehearsal && typeof rehearsal !== "function") {
    throw raise("bad_option", "`rehearsal` must be the function that `escale/rehearsal` exports");
  }
  await wasm.start(input);
  if (!rehearsal) return;
  const begun = rehearsed.get(rehearsal) ?? rehearsal(opener());
  rehearsed.set(rehearsal, begun);
  await begun;
}

/**
 * @internal Sets where the wasm comes from, for an entry whose JavaScript carries it. `isDefault` is for the choice of a
 * tool, which an import of the application overrides.
 */
export function carry(load: () => PromiseLike<InitInput>, isDefault = false): void {
  if (isDefault) wasm.carried ??= load;
  else wasm.carried = load;
}

/** @internal An opener of sessions whose failures cannot reach those of the page. Instances share the compiled code. */
export function opener(): OpenInMemory {
  const own = wasm.copy();
  return (options, databases) => openWith(own, options, databases);
}
