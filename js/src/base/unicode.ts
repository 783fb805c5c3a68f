/** Text as it crosses to the core, in UTF-8. */

import { raise } from "./errors.js";

/** Half of a surrogate pair. */
export const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Refuses half of a surrogate pair. It is no character and has no UTF-8 form: it would arrive as U+FFFD, and name another
 * document.
 */
export function checkUnicode(text: string, place: string, code: "bad_value" | "bad_key" | "bad_option" = "bad_value"): string {
  if (LONE_SURROGATE.test(text)) throw raise(code, `${place} holds text that is not well-formed Unicode`);
  return text;
}
