/** Which refusals end the waiting for a load. */

import type { EscaleError } from "../base/errors.js";

/** Whether waiting for a load is futile: a temporary refusal of the server ends by itself. */
export function isFutile({ retryable, code }: EscaleError): boolean {
  return !retryable || code === "not_loaded";
}
