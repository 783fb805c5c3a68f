// Classes, and the names of a document by its class: its pk, the collections that hold it, and the checks of its properties
// (docs/schema.md).
import { badKey, badValue, Fault } from "./fault.mjs";
import { shaS } from "./hash.mjs";
import { isMap, isString, isStrings, own, sizeOf } from "./values.mjs";

const MIB = 1 << 20;
const MINUTES_MAX = 150_119_987_579;
const NAME = "[A-Za-z][A-Za-z0-9]{0,63}";
const DEF = new RegExp(`^(${NAME})(?:/(${NAME})@([-\\w]{22})|@([-\\w.:]{1,1024}))?$`);
const ORG = /^[-\w.:]{1,1024}$/;

const INDEX_TYPES = {
  hash: isString,
  string: isString,
  integer: Number.isSafeInteger,
  number: (value) => typeof value === "number",
  "string[]": isStrings,
  boolean: (value) => typeof value === "boolean",
};

export const isDef = (def) => isString(def) && DEF.test(def);
export const isOrg = (name) => ORG.test(name);

/** The classes of a schema by their names. Local ones are left out: no session sends anything of them. */
export function classesOf(schema) {
  if (!isMap(schema)) throw new TypeError("schema: a map of classes, as docs/schema.md has it");
  const classes = new Map();
  for (const [name, declared] of Object.entries(schema)) {
    const { key, sync = true, release = 1, collections = {}, indexes = {}, in: parent, raw = false, clock, local } = declared;
    if (!new RegExp(`^${NAME}$`).test(name) || !isStrings(key) || key.length === 0) throw new TypeError(`schema: ${name} is no class with a key`);
    const all = Object.entries(indexes).map(([property, index]) => ({ property, ...(isString(index) ? { type: index } : index) }));
    const bad = all.find(({ type }) => !Object.hasOwn(INDEX_TYPES, type));
    if (bad) throw new TypeError(`schema: ${name} has an index of another type, ${bad.type}`);
    if (!local) classes.set(name, { name, key, sync, release, collections, indexes: all, parent, raw, items: [], isNumbered: clock === "sequence" });
  }
  for (const cls of classes.values()) {
    if (cls.parent === undefined) continue;
    const parent = classes.get(cls.parent);
    if (!parent || parent.key.length > cls.key.length) throw new TypeError(`schema: ${cls.name} is in no class whose key it holds`);
    // Each item is a member of one collection for ever. Its hash is the pk of the parent.
    cls.parent = parent;
    cls.collections = { in: { key: cls.key.slice(0, parent.key.length) } };
    parent.items.push(cls);
    cls.isNumbered = parent.isNumbered;
  }
  return classes;
}

/** Whether each document of a class has a tree of its own, which may be one of numbers only. */
export const isTree = (cls) => cls.items.length > 0 || (cls.isNumbered && !cls.parent);

/** The name of the tree that a document is in: an item is in its parent's, and knows it by its one link. */
export const treeOf = (cls, pk, links) => (cls.parent ? `${cls.parent.name} ${links[0].split("@")[1]}` : `${cls.name} ${pk}`);

/** The pk of a key's values in an org. */
export function pkOf(org, cls, key) {
  if (!isStrings(key) || key.length !== cls.key.length) throw badKey("a key is a list of texts");
  if (key.slice(0, -1).some((value) => value.includes("/"))) throw badKey("only the last key property may hold a slash");
  const isLong = (text) => text.length > 255 && [...text].length > 255;
  if (cls.parent && isLong(key.slice(cls.parent.key.length).join("/"))) throw badKey("the own part of an item's key has more than 255 characters");
  if (cls.name === "Hdr" && org !== "ROOT") throw badKey("only the org ROOT has a Hdr");
  if (cls.name === "Hdr") return "1";
  if (cls.name !== "Org" || key.length > 1) return shaS(key.join("/"));
  if (!isOrg(key[0])) throw badKey("the code of an org is a name of an org");
  return key[0];
}

/** The collections that hold a document, each as `name@hash`. */
export function linksOf(cls, data) {
  const links = new Set();
  for (const [name, { key, list }] of Object.entries(cls.collections)) {
    const values = key.map((property) => own(data, property) ?? undefined);
    const absent = values.indexOf(undefined);
    const there = absent < 0 ? values : values.slice(0, absent);
    if (!there.every(list ? isStrings : isString)) throw badKey(`the properties of the collection ${name} do not fit`);
    if (absent >= 0) continue;
    if (values.slice(0, -1).some((value) => value.includes("/"))) throw badKey(`a slash in a property of the collection ${name}`);
    for (const value of list ? values[0] : [values.join("/")]) links.add(`${name}@${shaS(value)}`);
  }
  return [...links];
}

/** Checks the document that a write would leave. */
export function checkData(cls, data) {
  if (sizeOf(data) > MIB) throw new Fault("too_large", "A", "the document has more than 1 MiB", { phase: 1 });
  if (Object.keys(data).some((name) => name.startsWith("_"))) throw badValue("a name that begins with _");
  if (!Number.isSafeInteger(data.release) || data.release < 1 || data.release > cls.release) throw badValue("release is none of the class");
  const end = own(data, "maxLife") ?? 0;
  if (isTree(cls) && own(data, "maxLife") !== undefined && data.maxLife !== null) throw badValue("a document with items or numbers has no end");
  if (!Number.isSafeInteger(end) || end < 0 || end > MINUTES_MAX) throw badValue("maxLife is no number of minutes");
  const isPlain = (name) => cls.key.includes(name) || name === "raw" || name === "release" || name === "maxLife";
  if (cls.raw && !(own(data, "raw") instanceof Uint8Array && Object.keys(data).every(isPlain))) throw badValue("a raw item has its key and the bytes of raw");
  for (const { property, type } of cls.indexes) {
    const value = own(data, property) ?? undefined;
    if (value !== undefined && !INDEX_TYPES[type](value)) throw badValue(`the index ${property} holds another type`);
  }
}

/** The class, collection or document of a def, and the tree whose state it shows; nothing if there is no such def. */
export function findDef(classes, def) {
  const [, name, collection, hash, pk] = DEF.exec(def) ?? [];
  const cls = classes.get(name);
  if (!cls?.sync || (collection && !Object.hasOwn(cls.collections, collection))) return undefined;
  if (cls.parent && !collection && !pk) return undefined;
  const isItems = cls.parent !== undefined && collection !== undefined;
  const tree = isItems ? `${cls.parent.name} ${hash}` : pk && isTree(cls) ? `${name} ${pk}` : undefined;
  if (cls.isNumbered && tree === undefined) return undefined;
  return { cls, table: collection ? def : name, hash, pk, tree, isItems };
}
