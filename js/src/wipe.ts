import { toEscaleError } from "./errors.js";
import { checkWipe, type WipeOptions } from "./options.js";
import type { Wasm } from "./wasm.js";

/** Deletes a store on the given wasm, which knows its name and how to own it. */
export async function wipeWith(wasm: Pick<Wasm, "start">, options: WipeOptions): Promise<void> {
  const { org, account } = checkWipe(options);
  try {
    const glue = await wasm.start();
    await glue.wipe(org, account);
  } catch (error) {
    throw toEscaleError(error);
  }
}
