/** The entry `escale/advice`: a sentence about a failure, for the person in front of the page. */

import { ruleOf, sentenceOf, type BrokenRule } from "./base/advice/rules.js";
import { SENTENCES } from "./base/advice/sentences.js";
import type { ErrorCode, ErrorKind } from "./base/error-codes.js";

export type { BrokenRule, RuleWord } from "./base/advice/rules.js";

/**
 * Sentences of the application, by code. Codes of its own server may be among them. One that is declared as
 * `Record<ErrorCode, string>` has all of Escale's: that is a further language.
 */
export type AdviceTable = { readonly [C in ErrorCode]?: string } & { readonly [code: string]: string | undefined };

/** Options of `advice`. */
export interface AdviceOptions {
  /** The language of the person, by BCP 47. `fr` and its regions are French, and all others English, the default. */
  language?: string | undefined;
  /** Sentences that replace those of Escale, in any language. */
  table?: AdviceTable | undefined;
}

/** The code whose sentence fits a code of a server's own, by its kind. */
const OF_KIND: Readonly<Record<ErrorKind, ErrorCode>> = {
  refused: "server_refused",
  "not-found": "not_found",
  bug: "internal",
  unexpected: "server_error",
  outdated: "wrong_protocol",
  retry: "contention",
  unavailable: "unavailable",
  unauthorized: "forbidden",
};

/**
 * A sentence or two for the person in front of the page: the event, and the next step. `error.cure` is for developers.
 *
 * `error` can be anything that was thrown. An error of Escale is known by its `code`, also after it crossed to another
 * window or worker as an object. A code of a server's own has the sentence of its kind, and anything else that of
 * `internal`. The text holds no HTML, no code, and no data of the application.
 *
 * @example
 * ```js
 * import { defineSchema, open } from "escale";
 * import { advice } from "escale/advice";
 *
 * const schema = defineSchema({ Note: { key: ["id"] } });
 * const table = { bad_option: "Please enter a passphrase." };
 * try {
 *   await open({ org: "demo", schema, server: "http://localhost:7700" });
 * } catch (error) {
 *   show(advice(error, { language: "fr-CH" }));
 *   show(advice(error, { table })); // Please enter a passphrase.
 * }
 * ```
 */
export function advice(error: unknown, { language = "en", table = {} }: AdviceOptions = {}): string {
  const { code, kind } = Object(error) as { readonly code?: unknown; readonly kind?: unknown };
  const own = textOf(table, code);
  if (own !== undefined) return own;
  const known = nameIn(SENTENCES, code) ?? OF_KIND[nameIn(OF_KIND, kind) ?? "bug"];
  const rule = brokenRule(error);
  const sentence = (rule && sentenceOf(rule)) ?? SENTENCES[known];
  return textOf(table, known) ?? sentence[/^fr(-|$)/i.test(language) ? 1 : 0];
}

/**
 * The rule of values that a refused write broke, for the field of a form that shows it. Undefined for any
 * other error. `error` can be anything that was thrown, at the call or as the end of `accepted`.
 *
 * @example
 * ```js
 * import { defineSchema, open } from "escale";
 * import { brokenRule } from "escale/advice";
 * import { values } from "escale/values";
 *
 * const schema = defineSchema({ Task: { key: ["id"], properties: { title: { type: "string", maxLength: 4 } } } }, { values });
 * const session = await open({ org: "demo", schema, server: "http://localhost:7700", passphrase });
 * try {
 *   session.put("Task", { id: "1", title: "too long" });
 * } catch (error) {
 *   const { property, word, limit } = brokenRule(error) ?? {};
 *   show(property, word, limit); // title maxLength 4
 * }
 * ```
 */
export function brokenRule(error: unknown): BrokenRule | undefined {
  const { code, message } = Object(error) as { readonly code?: unknown; readonly message?: unknown };
  return code === "bad_value" && typeof message === "string" ? ruleOf(message) : undefined;
}

/** The application's sentence of a code, if there is one. */
const textOf = (table: AdviceTable, code: unknown): string | undefined => table[nameIn(table, code) ?? ""];

/** A name, if the record has it of its own. */
const nameIn = <T extends object>(record: T, name: unknown): (keyof T & string) | undefined =>
  typeof name === "string" && Object.hasOwn(record, name) ? (name as keyof T & string) : undefined;
