/** Encodes and checks keys, documents and changes, as they are sent. */

import { encodeMap } from "./encode.js";
import { raise } from "../base/errors.js";
import { checkUnicode } from "../base/unicode.js";
import { releaseOf, type Schema } from "./schema.js";
import type { ClassDeclaration } from "./schema-types.js";
import { isMap, type Raw } from "./raw.js";

const NAME = /^[a-z][a-z\d]{0,63}$/i;

/** The properties that a patch sets and removes, as it is sent. */
export interface Patched {
  set: Raw;
  unset: string[];
}

/** The class of that name; throws if there is none. */
export function classOf(schema: Pick<Schema, "classes">, className: string): ClassDeclaration {
  const declared = Object.hasOwn(schema.classes, className) ? schema.classes[className] : undefined;
  if (!declared) {
    const known = Object.keys(schema.classes).join(", ");
    throw raise("unknown_class", `the schema has no class ${className}; it has ${known}`);
  }
  return declared;
}

/** A key as it is sent. */
export function checkKey(key: unknown): string[] {
  if (!Array.isArray(key) || !key.every((part) => typeof part === "string")) {
    throw raise("bad_key", "a key is a list of strings, one for each key property: String(5) for a number");
  }
  key.forEach((part, at) => checkUnicode(part, `key[${at}]`, "bad_key"));
  return key;
}

/** A key as `find` takes it: crossing as one text is faster than as a list. */
export function joinedKey(key: readonly string[]): string {
  const [only] = key;
  if (key.length === 1 && only !== undefined) return only;
  if (key.slice(0, -1).some((part) => part.includes("/"))) {
    throw raise("bad_key", "only the last property of a key may hold a slash");
  }
  return key.join("/");
}

/** A whole document as it is sent, with the release of its class. */
export function encodeDocument(schema: Schema, className: string, data: unknown): Raw {
  const release = releaseOf(classOf(schema, className));
  if (!isMap(data)) throw raise("bad_value", "data is no map");
  checkNames(Object.keys(data));
  const encoded = { ...encodeMap(data, "data"), release };
  checkValues(schema, className, data);
  return encoded;
}

/** Refuses a document that breaks a rule of its class, or a patch by which it would. */
export function checkValues(schema: Schema, className: string, data: object, away?: readonly string[]): void {
  const broken = schema.check?.(className, data, away);
  if (broken) throw raise("bad_value", broken);
}

/** The values of a document's key properties. */
export function keyOf(declared: ClassDeclaration, data: Raw): string[] {
  return declared.key.map((name) => {
    const part = data[name];
    if (typeof part === "string") return part;
    const found = part === undefined ? "missing" : `a ${typeof part}`;
    throw raise("bad_key", `key property ${name} is ${found}: a key holds strings, as String(value) makes them`);
  });
}

/** Changes as they are sent. Properties that are undefined are removed, and so are those in `unset`. */
export function encodeChanges(changes: unknown, unset: unknown = []): Patched {
  if (!isMap(changes)) throw raise("bad_value", "changes is no map");
  if (!Array.isArray(unset) || !unset.every((name) => typeof name === "string")) {
    throw raise("bad_option", "unset: must be a list of names of properties");
  }
  const undefinedOnes = Object.keys(changes).filter((name) => changes[name] === undefined);
  const away = new Set<string>([...(unset), ...undefinedOnes]);
  const set = encodeMap(changes, "changes");
  checkNames([...Object.keys(changes), ...away]);
  for (const name of away) {
    if (Object.hasOwn(set, name)) throw raise("bad_option", `unset: ${name} is set as well`);
  }
  return { set, unset: [...away] };
}

/** A map of arguments as it is sent. */
export function encodeArgs(args: unknown): Raw {
  if (!isMap(args)) throw raise("bad_value", "args is no map");
  return encodeMap(args, "args");
}

/** Data with a patch applied. */
export function patched(data: Raw, { set, unset }: Patched): Raw {
  const kept = Object.entries(data).filter(([name]) => !unset.includes(name));
  return { ...Object.fromEntries(kept), ...set };
}

function checkNames(names: string[]): void {
  for (const name of names) {
    if (!NAME.test(name)) throw raise("bad_value", `${name}: a property is a letter, then letters and digits`);
    if (name === "release") throw raise("bad_value", "release: the session keeps it by itself");
  }
}
