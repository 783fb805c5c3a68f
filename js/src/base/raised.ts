/** Errors of the entries next to the main one: they are of its class, which must exist once. */

import { EscaleError, RAISED_HERE } from "../index.js";

/** Makes an error of the table. `detail` says which fault was found, and where. */
export function raised(code: keyof typeof RAISED_HERE, detail: string, cause?: unknown): EscaleError {
  const [kind, cure] = RAISED_HERE[code];
  return new EscaleError({ code, kind, retryable: kind === "X", message: detail, cure }, cause);
}
