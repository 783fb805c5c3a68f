// Names of documents and defs, as docs/protocol.md makes them, and the schema that the kit asks of a server.
import { createHash, randomBytes } from "node:crypto";

export function shaS(text) {
  return createHash("sha256").update(text, "utf8").digest().subarray(3, 19).toString("base64url");
}

/** The classes of the kit: each property of the schema language that the protocol lets a client see. */
export const SCHEMA = {
  Note: {
    key: ["id"],
    release: 3,
    collections: {
      box: { key: ["box"], mutable: true },
      tags: { key: ["tags"], list: true, mutable: true },
      kind: { key: ["kind"] },
      place: { key: ["country", "city"], mutable: true },
    },
    indexes: {
      n: "integer",
      rate: "number",
      title: "string",
      words: "string[]",
      email: { type: "hash", unique: true },
    },
  },
  Page: { key: ["book", "number"] },
  Line: { in: "Page", key: ["book", "page", "number"], indexes: { n: "integer" } },
  Title: { in: "Page", key: ["book", "page"] },
  Scan: { in: "Page", key: ["book", "page", "number"], raw: true },
  Account: { key: ["id"], clock: "sequence" },
  Entry: { in: "Account", key: ["account", "number"], indexes: { n: "integer" } },
  Owner: { in: "Account", key: ["account"] },
  Meter: { key: ["id"], clock: "sequence" },
  Serial: { key: ["id"], indexes: { number: { type: "hash", unique: true, global: true } } },
  Log: { key: ["id"], sync: false },
  Album: { key: ["id"], properties: { photo: "file", scans: "file[]" } },
  Org: { key: ["code"] },
  Hdr: { key: ["id"] },
};

/** Whether the versions of a class are numbers of trees. */
export const isNumbered = (className) => (SCHEMA[SCHEMA[className]?.in] ?? SCHEMA[className])?.clock === "sequence";

/** The parts of the schema language that a server may lack, each with the classes of the kit that need it. */
export const PARTS = {
  items: (className) => SCHEMA[className].in !== undefined,
  numbers: isNumbered,
};

/** The schema of a server that lacks these parts. */
export const schemaWithout = (parts) =>
  Object.fromEntries(Object.entries(SCHEMA).filter(([className]) => !parts.some((part) => PARTS[part](className))));

export const keyOf = (className, data) => SCHEMA[className].key.map((property) => data[property]);

/** The pk of a key in an org that is not `ROOT`. */
export function pkOf(className, key) {
  if (className === "Hdr") return "1";
  return className === "Org" ? key[0] : shaS(key.join("/"));
}

export const note = (id) => `Note@${shaS(id)}`;
export const inBox = (box) => `Note/box@${shaS(box)}`;
export const tagged = (tag) => `Note/tags@${shaS(tag)}`;
export const ofKind = (kind) => `Note/kind@${shaS(kind)}`;

/** The defs of the kit's schema that hold a document. */
export function defsOf(className, pk, data) {
  const { in: parent, key: names } = SCHEMA[className];
  const ofParent = parent && names.slice(0, SCHEMA[parent].key.length).map((property) => data[property]);
  const defs = [`${className}@${pk}`, parent ? `${className}/in@${shaS(ofParent.join("/"))}` : className];
  for (const [name, { key, list }] of Object.entries(SCHEMA[className].collections ?? {})) {
    const values = key.map((property) => data[property] ?? undefined);
    if (values.includes(undefined)) continue;
    const all = list ? values[0] : [values.join("/")];
    for (const value of new Set(all)) defs.push(`${className}/${name}@${shaS(value)}`);
  }
  return defs;
}

let counter = 0;

/** A UUID v7: the time, and then random bits. */
export function uuid() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = 0x70 | (bytes[6] & 15);
  bytes[8] = 0x80 | (bytes[8] & 63);
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** A text that no other check uses. */
export const fresh = (prefix = "x") => `${prefix}${randomBytes(6).toString("hex")}${(counter += 1)}`;

/** Numbers below a bound, from a seed. */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) % below;
  };
}
