/** The rules of values that a write may break (R98): their form in a message, and sentences about them. */

import { OF_RULES, type RuleWord, type Sentence } from "./sentences.js";

export type { RuleWord } from "./sentences.js";

/** The rule that a write broke, and where. */
export interface BrokenRule {
  /** The class of the document. */
  readonly className: string;
  /** The property. Undefined if the document has one that its class does not allow. */
  readonly property: string | undefined;
  /** The place in the list, from 0; undefined if the property as a whole breaks the rule. */
  readonly index: number | undefined;
  readonly word: RuleWord;
  /** The limit of the rule: a number for most words, the type for `type`. */
  readonly limit: number | string | undefined;
}

/** The form of the message: `Task.labels[2]: maxLength is 20`. */
const FORM = /^(\w+)\.(?:\*|(\w+)(?:\[(\d+)\])?): (required|type|enum|minimum|maximum|minLength|maxLength|maxItems|additionalProperties)(?: is (.+))?$/;

/** The rule that a message of `bad_value` names, if it names one. */
export function ruleOf(message: string): BrokenRule | undefined {
  const [found, className = "", property, index, word, limit] = FORM.exec(message) ?? [];
  if (found === undefined) return undefined;
  const isCount = limit !== undefined && Number.isFinite(Number(limit));
  return Object.freeze({
    className,
    property,
    index: index === undefined ? undefined : Number(index),
    word: word as RuleWord,
    limit: property === undefined ? undefined : isCount ? Number(limit) : limit,
  });
}

/** The sentence of a rule with its limit, if a person can do something about it. */
export function sentenceOf({ word, limit }: BrokenRule): Sentence | undefined {
  // A text with no characters is an entry that is missing.
  const [english, french] = OF_RULES[word === "minLength" && limit === 1 ? "required" : word] ?? [];
  return english && french ? [english.replace("#", String(limit)), french.replace("#", String(limit))] : undefined;
}
