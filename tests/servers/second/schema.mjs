// The schema: the possible documents, their pks, and the collections that hold them.
import { Fault, NAME, ORG, own, shaS } from "./common.mjs";

export function parseSchema(json) {
  const classes = new Map();
  for (const [name, from] of Object.entries(json)) {
    if (!NAME.test(name)) throw new Error(`${name} is no name of a class`);
    const collections = new Map(Object.entries(from.collections ?? {}));
    const indexes = Object.entries(from.indexes ?? {}).map(([index, spec]) => ({
      property: spec.property ?? index,
      type: spec.type ?? spec,
      unique: spec.unique ?? false,
      global: spec.global ?? false,
    }));
    classes.set(name, { name, key: from.key, sync: from.sync ?? true, release: from.release ?? 1, collections, indexes });
  }
  return classes;
}

const MINUTES_MAX = 150_119_987_579;

const INDEX = {
  hash: (value) => typeof value === "string",
  string: (value) => typeof value === "string",
  int: (value) => Number.isSafeInteger(value),
  float: (value) => typeof value === "number",
  list: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
};

/** The pk of a key's values in an org, in the order of the schema. */
export function pkOf(org, cls, values) {
  const isText = Array.isArray(values) && values.length === cls.key.length && values.every((value) => typeof value === "string");
  if (!isText) throw new Fault("bad_key", "A", "the key properties hold strings");
  if (values.slice(0, -1).some((value) => value.includes("/"))) throw new Fault("bad_key", "A", "only the last key property may hold a slash");
  if (cls.name === "Hdr") {
    if (org !== "ROOT") throw new Fault("bad_key", "A", "only the org ROOT has a Hdr");
    return "1";
  }
  if (cls.name !== "Org" || values.length > 1) return shaS(values.join("/"));
  if (!ORG.test(values[0])) throw new Fault("bad_key", "A", "the code of an org is an org's name");
  return values[0];
}

/** The collections that a document is in, as `name@hash`. */
export function linksOf(cls, data) {
  const links = [];
  const bad = (name) => new Fault("bad_key", "A", `the properties of the collection ${name} do not fit`, { phase: 1 });
  for (const [name, { key, list }] of cls.collections) {
    const values = key.map((property) => own(data, property) ?? undefined);
    if (list) {
      if (values[0] === undefined) continue;
      if (!INDEX.list(values[0])) throw bad(name);
      for (const item of new Set(values[0])) links.push(`${name}@${shaS(item)}`);
      continue;
    }
    const absent = values.indexOf(undefined);
    const found = absent < 0 ? values : values.slice(0, absent);
    if (found.some((value) => typeof value !== "string")) throw bad(name);
    if (absent >= 0) continue;
    if (values.slice(0, -1).some((value) => value.includes("/"))) throw bad(name);
    links.push(`${name}@${shaS(values.join("/"))}`);
  }
  return links;
}

export function checkData(cls, data) {
  const bad = (message) => new Fault("bad_value", "A", message, { phase: 1 });
  if (Object.keys(data).some((name) => name.startsWith("_"))) throw bad("names that begin with _ are reserved");
  const { release } = data;
  if (!Number.isSafeInteger(release) || release < 1 || release > cls.release) throw bad("release is not one of the class");
  const end = own(data, "maxLife") ?? 0;
  if (!Number.isSafeInteger(end) || end < 0 || end > MINUTES_MAX) throw bad("maxLife is no number of minutes");
  for (const { property, type } of cls.indexes) {
    const value = own(data, property) ?? undefined;
    if (value !== undefined && !INDEX[type](value)) throw bad(`the index on ${property} holds another type`);
  }
}
