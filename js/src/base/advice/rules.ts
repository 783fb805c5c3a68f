/** The rules of values that a write may break (R98): what a message says of one, and sentences about it. */

import type { Sentence } from "./sentences.js";

/** A word of the rules of values. */
export type RuleWord = "required" | "type" | "enum" | "minimum" | "maximum" | "minLength" | "maxLength" | "maxItems" | "additionalProperties";

/** The rule that a write broke, and where. */
export interface BrokenRule {
  /** The class of the document. */
  readonly className: string;
  /** The property. Undefined if the document has one that its class does not allow. */
  readonly property: string | undefined;
  /** The place in the list, from 0; undefined if the property as a whole breaks the rule. */
  readonly index: number | undefined;
  readonly word: RuleWord;
  /** What the rule allows: the number of most words, the type of `type`. */
  readonly limit: number | string | undefined;
}

/** Each sentence with `#` where the limit is. A text of no characters lacks an entry. */
const SENTENCES: { readonly [W in RuleWord]?: Sentence } = {
  required: [
    "Something is missing that is needed here. Please complete your entry.",
    "Une information obligatoire manque ici. Veuillez compléter votre saisie.",
  ],
  type: [
    "An entry does not have the right form, such as a text in the place of a number. Please correct it.",
    "Une saisie n'a pas la bonne forme, par exemple un texte à la place d'un nombre. Veuillez la corriger.",
  ],
  enum: [
    "This choice is not possible here. Please choose another one.",
    "Ce choix n'est pas possible ici. Veuillez en faire un autre.",
  ],
  minimum: ["A number is too small. The smallest is #.", "Un nombre est trop petit. Le plus petit possible est #."],
  maximum: ["A number is too large. The largest is #.", "Un nombre est trop grand. Le plus grand possible est #."],
  minLength: [
    "A text is too short. The fewest characters are #.",
    "Un texte est trop court. Le nombre minimal de caractères est #.",
  ],
  maxLength: [
    "A text is too long. The most characters are #.",
    "Un texte est trop long. Le nombre maximal de caractères est #.",
  ],
  maxItems: ["A list is too long. The most entries are #.", "Une liste est trop longue. Le nombre maximal d'entrées est #."],
};

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
  const [english, french] = SENTENCES[word === "minLength" && limit === 1 ? "required" : word] ?? [];
  return english && french ? [english.replace("#", String(limit)), french.replace("#", String(limit))] : undefined;
}
