/** `wipe`: deletes a store without a session. */

import { toEscaleError } from "../base/errors.js";
import { checkWipe, type WipeOptions } from "./options.js";
import { storeOf, type Wasm } from "../wasm/wasm.js";

/** Deletes a store on the given wasm, which knows the store's name and how to lock it. */
export async function wipeWith(wasm: Pick<Wasm, "take">, options: WipeOptions): Promise<void> {
  const owner = checkWipe(options);
  try {
    const { glue, giveBack } = await wasm.take(storeOf(owner));
    await glue.wipe(owner.org, owner.account).finally(giveBack);
  } catch (error) {
    throw toEscaleError(error);
  }
}
