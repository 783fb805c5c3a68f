import type { Wasm } from "./wasm.js";

/** It takes some hundredths of this; whoever is slower gains nothing by waiting. */
const LONGEST_MS = 10_000;

/** Warms up in the worker that `make` gives, which ends with it. */
export async function warmUpWith(wasm: Pick<Wasm, "start" | "module">, make: () => Worker): Promise<boolean> {
  let worker: Worker | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    // What fails here fails again, with its message, when a session is opened.
    await wasm.start();
    const made = (worker = make());
    return await new Promise<boolean>((resolve) => {
      made.onmessage = ({ data }) => resolve(data === true);
      made.onerror = (event) => {
        event.preventDefault();
        resolve(false);
      };
      timer = setTimeout(() => resolve(false), LONGEST_MS);
      made.postMessage(wasm.module);
    });
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
    worker?.terminate();
  }
}
