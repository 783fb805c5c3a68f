/** The names of a document by its class: its pk, the collections that hold it, and the checks of its properties. */

import type { ClassDeclaration } from "../schema/schema-types.js";
import type { Raw } from "../schema/values.js";
import { badKey, badValue } from "./fault.js";
import { shaS } from "./hash.js";

/** A class, with its name. */
export interface Class extends ClassDeclaration {
  readonly name: string;
  /** Of a class of items: how many of the first key properties are the key of the parent. */
  readonly parentKeys?: number;
  /** Whether other classes are `in` it. */
  readonly isParent?: boolean;
  /** Whether the versions of its documents are numbers of their trees. */
  readonly isNumbered?: boolean;
}

/** The name of the collection of all items of a parent. */
export const ITEMS = "in";

const MINUTES_MAX = 150_119_987_579;
const ORG = /^[-\w.:]{1,1024}$/;

const IS_OF_INDEX: { [type: string]: (value: unknown) => boolean } = {
  hash: (value) => typeof value === "string",
  string: (value) => typeof value === "string",
  int: (value) => Number.isSafeInteger(value),
  float: (value) => typeof value === "number",
  list: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  bool: (value) => typeof value === "boolean",
};

/** The pk of a key's values in an org. */
export function pkOf(org: string, { name, key }: Class, values: unknown): string {
  const isKey = Array.isArray(values) && values.length === key.length && values.every((value) => typeof value === "string");
  if (!isKey) throw badKey("the key properties hold strings");
  const parts = values;
  if (parts.slice(0, -1).some((part) => part.includes("/"))) throw badKey("only the last key property may hold a slash");
  if (name === "Hdr") {
    if (org !== "ROOT") throw badKey("only the org ROOT has a Hdr");
    return "1";
  }
  if (name !== "Org" || parts.length > 1) return shaS(parts.join("/"));
  if (!ORG.test(parts[0] ?? "")) throw badKey("the code of an org is an org's name");
  return parts[0] ?? "";
}

/** The def of a match, as sessions name it. */
export function defOf(org: string, declared: Class, match: object): string {
  const { name, key, collections = {}, parentKeys } = declared;
  const names = Object.keys(match);
  if (names.length === 0) return name;
  if (names.length === 1 && "key" in match && Array.isArray(match.key)) return `${name}@${pkOf(org, declared, match.key)}`;
  const known = parentKeys === undefined ? Object.entries(collections) : [[ITEMS, { key: key.slice(0, parentKeys) }] as const];
  const found = known.find(([, { key: of }]) => of.length === names.length && of.every((property) => property in match));
  if (!found) throw badKey(`no collection of ${name} has the properties ${names.join(", ")}`);
  return `${name}/${found[0]}@${shaS(found[1].key.map((property) => (match as Raw)[property]).join("/"))}`;
}

/** The collections that a document is in, as `name@hash`. */
export function linksOf(declared: Class, data: Raw): string[] {
  const { collections = {} } = declared;
  const links = new Set<string>();
  const parent = parentOf(declared, data);
  if (parent !== undefined) links.add(`${ITEMS}@${parent}`);
  for (const [name, { key, list }] of Object.entries(collections)) {
    const values = key.map((property) => valueOf(data, property));
    const bad = badKey(`the properties of the collection ${name} do not fit`);
    if (list) {
      if (values[0] === undefined) continue;
      if (!IS_OF_INDEX["list"]?.(values[0])) throw bad;
      for (const item of values[0] as string[]) links.add(`${name}@${shaS(item)}`);
      continue;
    }
    const absent = values.indexOf(undefined);
    if ((absent < 0 ? values : values.slice(0, absent)).some((value) => typeof value !== "string")) throw bad;
    if (absent >= 0) continue;
    if (values.slice(0, -1).some((value) => (value as string).includes("/"))) throw bad;
    links.add(`${name}@${shaS(values.join("/"))}`);
  }
  return [...links];
}

/** The pk of an item's parent; undefined for a document that is no item. */
export function parentOf({ key, parentKeys }: Class, data: Raw): string | undefined {
  return parentKeys === undefined ? undefined : shaS(key.slice(0, parentKeys).map((property) => data[property]).join("/"));
}

/** The tree whose numbers are the versions of a document, as `Class@pk` of the parent; undefined on the clock `time`. */
export function numberedTreeOf(declared: Class, pk: string, data: Raw): string | undefined {
  return declared.isNumbered ? `${declared.in ?? declared.name}@${parentOf(declared, data) ?? pk}` : undefined;
}

/** A property's value; undefined if there is none, or if it is null. */
export const valueOf = (data: Raw, name: string): unknown => (Object.hasOwn(data, name) ? (data[name] ?? undefined) : undefined);

/** The indexes of a class, each with the property that it is on. */
export function indexesOf({ indexes = {} }: Class): { property: string; type: string; unique: boolean }[] {
  return Object.entries(indexes).map(([name, index]) => {
    const spec = typeof index === "string" ? { type: index } : (index as { type: string; property?: string; unique?: boolean });
    return { property: spec.property ?? name, type: spec.type, unique: spec.unique ?? false };
  });
}

/** Checks the properties of a document that a write would leave. */
export function checkData(declared: Class, data: Raw): void {
  if (Object.keys(data).some((name) => name.startsWith("_"))) throw badValue("names that begin with _ are reserved");
  const isRaw = (name: string): boolean => name === "raw" || name === "release" || declared.key.includes(name);
  if (declared.raw && !Object.keys(data).every(isRaw)) throw badValue("a class of raw items has its key and raw");
  const { release } = data;
  const isRelease = Number.isSafeInteger(release) && (release as number) >= 1 && (release as number) <= (declared.release ?? 1);
  if (!isRelease) throw badValue("release is not one of the class");
  const end = valueOf(data, "maxLife") ?? 0;
  if (end !== 0 && declared.isParent) throw badValue("a parent of items has no maxLife");
  if (!Number.isSafeInteger(end) || (end as number) < 0 || (end as number) > MINUTES_MAX) throw badValue("maxLife is no number of minutes");
  for (const { property, type } of indexesOf(declared)) {
    const value = valueOf(data, property);
    if (value !== undefined && !IS_OF_INDEX[type]?.(value)) throw badValue(`the index on ${property} holds another type`);
  }
}
