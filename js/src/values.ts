/** The entry `escale/values`: refuses documents at the call that break the rules of their class (R98). */

import { internal } from "./index.js";
import type { ClassDeclaration, PropertyRule, SchemaDeclaration } from "./schema/schema-types.js";
import type { ValuesCheck } from "./schema/schema.js";

const { isBytes } = internal;

/** The properties of every document, which no class declares. */
const OWN = ["maxLife", "release"];
/** Values in one `enum`. */
const ENUM_MAX = 256;

const NUMBERS = ["integer", "number"];
/** The types that each word is for. */
const WORDS: { readonly [word: string]: readonly string[] | undefined } = {
  enum: ["string", ...NUMBERS, "boolean", "any"],
  minimum: NUMBERS,
  maximum: NUMBERS,
  minLength: ["string"],
  maxLength: ["string"],
  maxItems: ["string[]", "number[]", "boolean[]", "file[]"],
  items: ["string[]", "number[]"],
};

const isRecord = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

/** The rule of a property, or of the elements of one. */
type Rule = Partial<PropertyRule> & { readonly type: string };

interface Rules {
  readonly properties: ReadonlyMap<string, Rule>;
  readonly required: readonly string[];
  /** The only properties that a document may have; none if it may have any. */
  readonly known: ReadonlySet<string> | undefined;
}

/** Thrown within this module: the place of a mistake, and the word. */
class Broken extends Error {}

const fail = (what: string): never => {
  throw new Broken(what);
};

/** Calls, and gives the text of the first broken rule. */
function broken(call: () => void): string | undefined {
  try {
    call();
  } catch (error) {
    if (error instanceof Broken) return error.message;
    throw error;
  }
  return undefined;
}

/**
 * Refuses a write at the call if its document breaks a rule of its class, in the words of the server. Without it only the
 * server does, once it is asked.
 *
 * @example
 * ```js
 * import { defineSchema } from "escale";
 * import { values } from "escale/values";
 *
 * const schema = defineSchema(
 *   { Todo: { key: ["id"], properties: { title: { type: "string", maxLength: 80 } }, required: ["title"] } },
 *   { values },
 * );
 * show(schema.classes.Todo.required);
 * ```
 */
export function values(classes: SchemaDeclaration): ValuesCheck | string {
  const all = new Map<string, Rules>();
  for (const [name, declared] of Object.entries(classes)) {
    const mistake = broken(() => {
      // The server writes these itself.
      if (!name.startsWith("Escale")) all.set(name, rulesOf(declared));
    });
    if (mistake) return `class ${name}: ${mistake}`;
  }
  return (className, data, away) => {
    const rules = all.get(className);
    const found = rules && broken(() => check(rules, data, away));
    return found && `${className}.${found}`;
  };
}

function rulesOf(declared: ClassDeclaration): Rules {
  const { key, collections = {}, indexes = {}, raw, required = [], additionalProperties = true } = declared;
  const properties = new Map<string, Rule>();
  for (const [name, property] of Object.entries(declared.properties ?? {})) {
    const rule: Rule = typeof property === "string" ? { type: property } : property;
    const mistake = isRecord(rule) ? broken(() => checkRule(rule)) : "a type or a map expected";
    if (mistake) fail(`property ${name}: ${mistake}`);
    properties.set(name, rule);
  }
  const indexed = Object.entries(indexes).map(([name, index]) => (typeof index === "string" ? name : (index.property ?? name)));
  const collected = Object.values(collections).flatMap((collection) => collection.key);
  const known = new Set([...key, ...properties.keys(), ...indexed, ...collected, ...(raw ? ["raw"] : [])]);
  if (!Array.isArray(required)) fail("required: a list of names of properties expected");
  // A misspelt one would refuse each write.
  for (const name of required as readonly string[]) if (!known.has(name)) fail("required: each name must be that of a declared property");
  if (typeof additionalProperties !== "boolean") fail("additionalProperties: true or false expected");
  for (const name of OWN) known.add(name);
  return { properties, required: [...required].sort(), known: additionalProperties ? undefined : known };
}

/** Refuses words that no value could keep. */
function checkRule(rule: Rule): void {
  for (const [word, value] of Object.entries(rule) as [string, unknown][]) {
    if (word === "type") continue;
    const types = (Object.hasOwn(WORDS, word) ? WORDS[word] : undefined) ?? fail(`no word is called ${JSON.stringify(word)}`);
    if (!types.includes(rule.type)) fail(`${word} is for ${types.join(", ")}`);
    if (word === "enum") {
      const isFine = (one: unknown): boolean => ["string", "number", "boolean"].includes(typeof one) && (rule.type === "any" || typeof one === rule.type || (typeof one === "number" && rule.type === "integer"));
      const isList = Array.isArray(value) && value.length > 0 && value.length <= ENUM_MAX && value.every(isFine);
      if (!isList) fail(`enum: a list of 1 to ${ENUM_MAX} values of the type expected`);
    } else if (word === "items") {
      const of = rule.type.slice(0, -2);
      const items = isRecord(value) ? (value as Partial<Rule>) : fail("items: a map expected");
      if (Object.hasOwn(items, "type") && items.type !== of) fail(`items: the type is ${of}`);
      const mistake = broken(() => checkRule({ ...items, type: of } as Rule));
      if (mistake) fail(`items: ${mistake}`);
    } else if (NUMBERS.includes(types[0] as string)) {
      if (typeof value !== "number") fail(`${word}: a number expected`);
    } else if (!Number.isSafeInteger(value) || (value as number) < 0) fail(`${word}: a number of 0 or more expected`);
  }
  const isAbove = (least?: number, most?: number): boolean => least !== undefined && most !== undefined && least > most;
  if (isAbove(rule.minimum, rule.maximum) || isAbove(rule.minLength, rule.maxLength)) fail("the least is above the most");
}

/** Checks a document. With `away` it is a patch, which removes these properties. */
function check({ properties, required, known }: Rules, data: object, away?: readonly string[]): void {
  const map = data as { readonly [name: string]: unknown };
  const isAbsent = (name: string): boolean => !Object.hasOwn(map, name) || (map[name] ?? undefined) === undefined;
  const isTaken = (name: string): boolean => (away?.includes(name) ?? false) || (isAbsent(name) && (!away || Object.hasOwn(map, name)));
  for (const name of required) if (isTaken(name)) fail(`${name}: required`);
  for (const name of Object.keys(map).sort()) {
    if (map[name] === undefined) continue;
    const rule = properties.get(name);
    if (rule && !isAbsent(name)) checkValue(rule, name, map[name]);
    // The name itself is the application's data. It has no place in a message.
    if (known && !known.has(name)) fail("*: additionalProperties is false");
  }
}

function checkValue(rule: Rule, place: string, value: unknown): void {
  if (!isOf(rule.type, value)) fail(`${place}: type is ${rule.type}`);
  if (rule.enum && !rule.enum.includes(value as string)) fail(`${place}: enum`);
  const limit = (word: "minimum" | "maximum" | "minLength" | "maxLength" | "maxItems", by: number, sign: 1 | -1): void => {
    const most = rule[word];
    if (most !== undefined && by * sign > most * sign) fail(`${place}: ${word} is ${most}`);
  };
  if (typeof value === "number") {
    limit("minimum", value, -1);
    limit("maximum", value, 1);
  } else if (typeof value === "string") {
    const count = Array.from(value).length;
    limit("minLength", count, -1);
    limit("maxLength", count, 1);
  } else if (Array.isArray(value)) {
    limit("maxItems", value.length, 1);
    const items = rule.items && ({ ...rule.items, type: rule.type.slice(0, -2) } as Rule);
    if (items) value.forEach((item, at) => checkValue(items, `${place}[${at}]`, item));
  }
}

/** Whether a value has a declared type. The core checks references to files. */
function isOf(type: string, value: unknown): boolean {
  if (type.endsWith("[]")) return Array.isArray(value) && value.every((item) => isOf(type.slice(0, -2), item));
  if (type === "integer") return Number.isSafeInteger(value);
  if (type === "bytes") return isBytes(value);
  if (type === "file") return isRecord(value) && !isBytes(value);
  return type === "any" || typeof value === type;
}
