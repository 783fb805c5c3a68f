// A second server, written from docs/protocol.md, docs/schema.md and docs/rules.md alone: it shows that they are enough.
// It keeps everything in memory and needs nothing but Node. It must not share code with server/ or with the package.
// What always holds: a request is served in one go, so that no write falls between its `now` and its snapshot.
//
//     node tests/servers/second.mjs --schema FILE --port N
import { createHash, createHmac, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const MIB = 1 << 20;
const DAY_MS = 86_400_000;
const DELTA_MS = 2000; // the longest write, and as much again
const NAME = /^[A-Za-z][A-Za-z0-9]{0,63}$/;
const DEF = /^([A-Za-z][A-Za-z0-9]{0,63})(?:\/([A-Za-z][A-Za-z0-9]{0,63}))?(?:@([-\w.:]{1,1024}))?$/;
const ORG = /^[-\w.:]{1,1024}$/;
const NOT_EXECUTED = ["C", "X", "O"];

const own = (map, key) => (Object.hasOwn(map, key) ? map[key] : undefined);
const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
const isText = (value) => typeof value === "string" && value !== "" && Buffer.byteLength(value) <= 1024;
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const ascending = (a, b) => a.v - b.v || compare(a.pk, b.pk);

export function shaS(text) {
  return createHash("sha256").update(text, "utf8").digest().subarray(3, 19).toString("base64url");
}

class Fault extends Error {
  constructor(code, kind, message = "", { status, phase = 0, doc } = {}) {
    super(message);
    Object.assign(this, { code, kind, status, phase, doc });
  }
  toValue() {
    const { code, kind, phase, message, doc } = this;
    return { code, kind, phase, message, ...(doc && { doc }) };
  }
}
const malformed = (message) => new Fault("malformed", "B", message, { status: 400 });
const tooDeep = () => new Fault("too_deep", "A", "nested too deep", { status: 400 });
const unknownDef = () => new Fault("unknown_def", "N", "no such class or collection");

// ---- The two forms ----

/** A document's data: bytes in msgpack, a map in JSON. */
class Data {
  constructor(value) {
    this.value = value;
  }
}

/** Floats that look like integers to JavaScript, by what holds them: they must not stand where an integer must. */
const floats = new WeakMap();

/** Puts a value into its map or list, and remembers a float. */
function put(holder, key, value, isFloat) {
  if (isMap(holder)) {
    if (key === "__proto__" || Object.hasOwn(holder, key)) throw malformed("a key that is refused, or twice in one map");
  }
  holder[key] = value;
  if (isFloat) (floats.get(holder) ?? floats.set(holder, new Set()).get(holder)).add(key);
}

function text(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw malformed("a text that is no UTF-8");
  }
}

export function decodeMsgpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (count) => {
    if (at + count > bytes.length) throw malformed("the message is cut off");
    at += count;
    return at - count;
  };
  const unsigned = (width) => {
    const from = take(width);
    if (width === 8) return Number(view.getBigUint64(from));
    return width === 1 ? view.getUint8(from) : width === 2 ? view.getUint16(from) : view.getUint32(from);
  };
  const some = (count) => bytes.subarray(take(count), at);
  const items = (count, isList, depth) => {
    if (depth > 40) throw tooDeep();
    if (count > bytes.length - at) throw malformed("the message is cut off");
    const holder = isList ? [] : {};
    for (let i = 0; i < count; i++) {
      const key = isList ? i : value(depth);
      if (!isList && typeof key !== "string") throw malformed("a key that is no text");
      const isFloat = bytes[at] === 0xca || bytes[at] === 0xcb;
      put(holder, key, value(depth), isFloat);
    }
    return holder;
  };
  const finite = (number) => {
    if (!Number.isFinite(number)) throw malformed("a number that is not finite");
    return number;
  };
  function value(depth) {
    const tag = unsigned(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return items(tag & 15, false, depth + 1);
    if (tag < 0xa0) return items(tag & 15, true, depth + 1);
    if (tag < 0xc0) return text(some(tag & 31));
    if (tag >= 0xe0) return tag - 256;
    if (tag === 0xc0) return null;
    if (tag === 0xc2 || tag === 0xc3) return tag === 0xc3;
    if (tag >= 0xc4 && tag <= 0xc6) return new Uint8Array(some(unsigned(1 << (tag - 0xc4))));
    if (tag === 0xca) return finite(view.getFloat32(take(4)));
    if (tag === 0xcb) return finite(view.getFloat64(take(8)));
    if (tag >= 0xcc && tag <= 0xcf) return unsigned(1 << (tag - 0xcc));
    if (tag === 0xd0) return view.getInt8(take(1));
    if (tag === 0xd1) return view.getInt16(take(2));
    if (tag === 0xd2) return view.getInt32(take(4));
    if (tag === 0xd3) return Number(view.getBigInt64(take(8)));
    if (tag >= 0xd9 && tag <= 0xdb) return text(some(unsigned(1 << (tag - 0xd9))));
    if (tag === 0xdc || tag === 0xdd) return items(unsigned(tag === 0xdc ? 2 : 4), true, depth + 1);
    if (tag === 0xde || tag === 0xdf) return items(unsigned(tag === 0xde ? 2 : 4), false, depth + 1);
    throw malformed("an extension type");
  }
  const result = value(0);
  if (at !== bytes.length) throw malformed("something follows the message");
  return result;
}

export function encodeMsgpack(value) {
  const parts = [];
  const bytes = (...list) => parts.push(Buffer.from(list));
  const head = (count, small, tags) => {
    if (small && count < small[1]) return bytes(small[0] | count);
    const width = count < 256 && tags[0] ? 0 : count < 65_536 ? 1 : 2;
    const buffer = Buffer.alloc(1 + (1 << width));
    buffer[0] = tags[width];
    buffer.writeUIntBE(count, 1, 1 << width);
    parts.push(buffer);
  };
  const number = (n) => {
    const buffer = Buffer.alloc(9);
    if (!Number.isSafeInteger(n)) buffer[0] = 0xcb, buffer.writeDoubleBE(n, 1);
    else if (n >= 0 && n < 128) return bytes(n);
    else if (n >= 0) buffer[0] = 0xcf, buffer.writeBigUInt64BE(BigInt(n), 1);
    else buffer[0] = 0xd3, buffer.writeBigInt64BE(BigInt(n), 1);
    parts.push(buffer);
  };
  const walk = (item) => {
    if (item === null) bytes(0xc0);
    else if (typeof item === "boolean") bytes(item ? 0xc3 : 0xc2);
    else if (typeof item === "number") number(item);
    else if (typeof item === "string") {
      head(Buffer.byteLength(item), [0xa0, 32], [0xd9, 0xda, 0xdb]);
      parts.push(Buffer.from(item));
    } else if (item instanceof Data) walk(encodeMsgpack(item.value));
    else if (item instanceof Uint8Array) {
      head(item.length, undefined, [0xc4, 0xc5, 0xc6]);
      parts.push(item);
    } else if (Array.isArray(item)) {
      head(item.length, [0x90, 16], [0, 0xdc, 0xdd]);
      item.forEach(walk);
    } else {
      const entries = Object.entries(item).filter(([, inner]) => inner !== undefined);
      head(entries.length, [0x80, 16], [0, 0xde, 0xdf]);
      for (const [key, inner] of entries) walk(key), walk(inner);
    }
  };
  walk(value);
  return new Uint8Array(Buffer.concat(parts));
}

export function decodeJson(source) {
  const token = /[ \t\r\n]*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|(-?\d[-+.\deE]*)|(true|false|null))[ \t\r\n]*/sy;
  const next = () => {
    const match = token.exec(source);
    if (!match) throw malformed("no JSON");
    return match;
  };
  const scalar = (match) => {
    let result;
    try {
      result = JSON.parse(match[2] ?? match[3] ?? match[4]);
    } catch {
      throw malformed("no JSON");
    }
    if (match[3] && !Number.isFinite(result)) throw malformed("a number that is not finite");
    if (match[2] && !result.isWellFormed()) throw malformed("a text that is no UTF-8");
    return result;
  };
  const restored = (map) => {
    const keys = Object.keys(map);
    if (keys.length === 1 && keys[0] === "$bytes") {
      const encoded = map["$bytes"];
      const bytes = typeof encoded === "string" && Buffer.from(encoded, "base64url");
      if (!bytes || bytes.toString("base64url") !== encoded) throw malformed("bytes that are no base64url");
      return new Uint8Array(bytes);
    }
    if (keys.includes("$bytes")) throw malformed("$bytes does not stand alone");
    if (!keys.some((key) => /^\$\$+bytes$/.test(key))) return map;
    const result = {};
    for (const key of keys) put(result, /^\$\$+bytes$/.test(key) ? key.slice(1) : key, map[key], floats.get(map)?.has(key));
    return result;
  };
  function value(match, depth) {
    if (match[1] !== "{" && match[1] !== "[") {
      if (match[1]) throw malformed("no JSON");
      return scalar(match);
    }
    if (depth >= 40) throw tooDeep();
    const isList = match[1] === "[";
    const [holder, end] = isList ? [[], "]"] : [{}, "}"];
    let inner = next();
    if (inner[1] === end) return holder;
    for (;;) {
      let key = holder.length;
      if (!isList) {
        if (!inner[2] || next()[1] !== ":") throw malformed("no JSON");
        key = scalar(inner);
        inner = next();
      }
      put(holder, key, value(inner, depth + 1), inner[3] !== undefined && /[.eE]/.test(inner[3]));
      const after = next()[1];
      if (after === end) return isList ? holder : restored(holder);
      if (after !== ",") throw malformed("no JSON");
      inner = next();
    }
  }
  token.lastIndex = 0;
  const result = value(next(), 0);
  if (token.lastIndex !== source.length) throw malformed("something follows the message");
  return result;
}

export function encodeJson(value) {
  const walk = (item) => {
    if (item instanceof Data) return walk(item.value);
    if (item instanceof Uint8Array) return { $bytes: Buffer.from(item).toString("base64url") };
    if (Array.isArray(item)) return item.map(walk);
    if (!isMap(item)) return item;
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [/^\$+bytes$/.test(key) ? `$${key}` : key, walk(inner)]));
  };
  return JSON.stringify(walk(value));
}

const weightOf = (value) => encodeMsgpack(value).length;
const depthOf = (value) => {
  if (value instanceof Uint8Array || typeof value !== "object" || value === null) return 0;
  return 1 + Object.values(value).reduce((most, inner) => Math.max(most, depthOf(inner)), 0);
};
/** Whether two values are the same; the order of a map's keys does not count. */
function same(a, b) {
  if (a === b) return true;
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    return a instanceof Uint8Array && b instanceof Uint8Array && Buffer.compare(a, b) === 0;
  }
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => same(item, b[i]));
  }
  if (!isMap(a) || !isMap(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}

// ---- The schema ----

function parseSchema(json) {
  const classes = new Map();
  for (const [name, from] of Object.entries(json)) {
    if (!NAME.test(name)) throw new Error(`${name} is no name of a class`);
    const collections = new Map(Object.entries(from.collections ?? {}));
    const indexes = Object.entries(from.indexes ?? {}).map(([index, spec]) => ({
      property: spec.property ?? index,
      type: spec.type ?? spec,
      unique: spec.unique ?? spec.global ?? false,
      global: spec.global ?? false,
    }));
    classes.set(name, { name, key: from.key, sync: from.sync ?? true, release: from.release ?? 1, collections, indexes });
  }
  return classes;
}

const INDEX = {
  hash: (value) => typeof value === "string",
  string: (value) => typeof value === "string",
  int: (value) => Number.isSafeInteger(value),
  float: (value) => typeof value === "number",
  list: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
};

/** The pk of a key's values, in the order of the schema. */
function pkOf(cls, values) {
  const isText = Array.isArray(values) && values.length === cls.key.length && values.every((value) => typeof value === "string");
  if (!isText) throw new Fault("bad_key", "A", "the key properties hold strings");
  if (values.slice(0, -1).some((value) => value.includes("/"))) throw new Fault("bad_key", "A", "only the last key property may hold a slash");
  if (cls.name === "Hdr") return "1";
  return cls.name === "Org" ? values.join("/") : shaS(values.join("/"));
}

/** The collections that a document is in, as `name@hash`. */
function linksOf(cls, data) {
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
    if (values.some((value) => value !== undefined && typeof value !== "string")) throw bad(name);
    if (values.includes(undefined)) continue;
    if (values.slice(0, -1).some((value) => value.includes("/"))) throw bad(name);
    links.push(`${name}@${shaS(values.join("/"))}`);
  }
  return links;
}

function checkData(cls, data) {
  const bad = (message) => new Fault("bad_value", "A", message, { phase: 1 });
  if (Object.keys(data).some((name) => name.startsWith("_"))) throw bad("names that begin with _ are reserved");
  const { release } = data;
  if (!Number.isSafeInteger(release) || release < 1 || release > cls.release) throw bad("release is not one of the class");
  const end = own(data, "maxLife") ?? 0;
  if (!Number.isSafeInteger(end) || end < 0) throw bad("maxLife is no number of minutes");
  for (const { property, type } of cls.indexes) {
    const value = own(data, property) ?? undefined;
    if (value !== undefined && !INDEX[type](value)) throw bad(`the index on ${property} holds another type`);
  }
}

// ---- The database ----

class Database {
  constructor(clock) {
    this.epoch = [clock(), randomBytes(8).toString("hex")];
    Object.assign(this, { highest: 0, told: 0, horizon: 0, cursorKey: randomBytes(32) });
    for (const table of ["documents", "memberships", "sessions", "operations"]) this[table] = new Map();
  }
  copy() {
    return Object.assign(Object.create(Database.prototype), structuredClone({ ...this }));
  }
}

/** The rows of a table that stand under a name: a map that is there from the first look. */
const under = (table, name) => table.get(name) ?? table.set(name, new Map()).get(name);

/** One write: it notes how to take itself back, and what it changed. */
class Write {
  constructor(engine, org) {
    Object.assign(this, { engine, org, db: engine.db, given: 0, undo: [], changed: new Set(), depth: 0 });
    this.now = Math.max(engine.clock(), this.db.told, this.db.highest + 1);
  }
  set(rows, key, value) {
    const before = rows.get(key);
    this.undo.push(() => (before === undefined ? rows.delete(key) : rows.set(key, before)));
    if (value === undefined) rows.delete(key);
    else rows.set(key, value);
  }
  rollBack() {
    while (this.undo.length) this.undo.pop()();
  }
  documents(cls) {
    return under(this.db.documents, `${this.org} ${cls.name}`);
  }
  member(cls, link, pk, state) {
    const rows = under(this.db.memberships, `${this.org} ${cls.name}/${link}`);
    this.set(rows, pk, state && { v: this.now, state });
    this.changed.add(`${cls.name}/${link}`);
  }
  wrote(cls, pk, document) {
    this.set(this.documents(cls), pk, document);
    this.given = this.now;
    this.changed.add(cls.name).add(`${cls.name}@${pk}`);
  }
  put(cls, pk, given) {
    const data = { release: cls.release, ...given };
    const old = this.documents(cls).get(pk);
    if (weightOf(data) > MIB) throw new Fault("too_large", "A", "the document has more than 1 MiB", { phase: 1 });
    checkData(cls, data);
    const links = linksOf(cls, data);
    if (old && !old.deleted) {
      if (same(old.data, data)) return void (this.given = Math.max(this.given, old.v));
      const fixed = (all) => all.filter((link) => !cls.collections.get(link.split("@")[0])?.mutable).sort().join();
      if (fixed(links) !== fixed(old.links)) throw new Fault("immutable_key", "A", "a collection is not mutable", { phase: 1 });
    }
    this.checkUnique(cls, pk, data);
    for (const link of old?.links ?? []) if (!links.includes(link)) this.member(cls, link, pk, "left");
    for (const link of links) this.member(cls, link, pk, "alive");
    this.wrote(cls, pk, { v: this.now, deleted: false, maxLife: data.maxLife ?? undefined, links, data });
  }
  checkUnique(cls, pk, data) {
    for (const { property, unique, global } of cls.indexes) {
      const value = own(data, property) ?? undefined;
      if (!unique || value === undefined) continue;
      for (const [name, rows] of this.db.documents) {
        const [org, className] = name.split(" ");
        if (className !== cls.name || (org !== this.org && !global)) continue;
        for (const [other, document] of rows) {
          if ((other === pk && org === this.org) || document.deleted) continue;
          if (own(document.data, property) === value) throw new Fault("not_unique", "A", `the index on ${property} is unique`, { phase: 1 });
        }
      }
    }
  }
  delete(cls, pk) {
    const old = this.documents(cls).get(pk);
    for (const link of old.links) this.member(cls, link, pk, cls.sync ? "deleted" : undefined);
    const data = Object.fromEntries(cls.key.map((property) => [property, old.data[property]]));
    this.wrote(cls, pk, cls.sync ? { v: this.now, deleted: true, links: old.links, data } : undefined);
  }
  expect(cls, pk, ifVersion) {
    if (ifVersion === undefined || ifVersion === null) return;
    const old = this.documents(cls).get(pk);
    const isGone = !old || old.deleted;
    let holds = old ? old.v === ifVersion : false;
    if (isMap(ifVersion)) {
      const earlier = under(this.db.operations, this.org).get(ifVersion.op);
      if (!earlier || earlier.refused) throw new Fault("order_held", "C", "the earlier operation was refused, or is not known");
      holds = (old && old.v <= earlier.v) || (earlier.v === 0 && isGone);
    } else if (ifVersion === 0) holds = isGone;
    const doc = old ? rowOf(pk, old) : { pk, v: 0, deleted: true };
    if (!holds) throw new Fault("version_conflict", "A", "the document has another version", { phase: 1, doc });
  }
}

const rowOf = (pk, { v, deleted, maxLife, data }) =>
  deleted ? { pk, v, deleted } : { pk, v, ...(maxLife !== undefined && { maxLife }), data };
const toWire = (row) => (row.data ? { ...row, data: new Data(row.data) } : row);
const toWireResult = (result) =>
  result.fault?.doc ? { ...result, fault: { ...result.fault, doc: toWire(result.fault.doc) } } : result;

// ---- Operations ----

const badValue = (message) => new Fault("bad_value", "A", message);

function classOf(engine, args) {
  if (!isMap(args)) throw badValue("the arguments are no map");
  if (typeof own(args, "class") !== "string") throw badValue("class is no text");
  const cls = engine.classes.get(args.class);
  if (!cls) throw new Fault("unknown_class", "N", "no such class");
  const expected = own(args, "ifVersion") ?? null;
  const isOperation = isMap(expected) && isText(own(expected, "op"));
  const isVersion = Number.isSafeInteger(expected) && expected >= 0 && !floats.get(args)?.has("ifVersion");
  if (expected !== null && !isOperation && !isVersion) throw badValue("ifVersion is no version");
  return cls;
}

const OPERATIONS = {
  "doc.put"(write, args) {
    const cls = classOf(write.engine, args);
    const data = own(args, "data");
    if (!isMap(data)) throw badValue("data is no map");
    const pk = pkOf(cls, cls.key.map((property) => own(data, property)));
    const old = write.documents(cls).get(pk);
    if (old && cls.key.some((property) => old.data[property] !== data[property])) {
      throw new Fault("key_mismatch", "A", "a document of the same pk has another key");
    }
    write.expect(cls, pk, own(args, "ifVersion"));
    write.put(cls, pk, data);
  },
  "doc.patch"(write, args) {
    const cls = classOf(write.engine, args);
    const [set, unset] = [own(args, "set"), own(args, "unset") ?? []];
    if (!isMap(set)) throw badValue("set is no map");
    if (!Array.isArray(unset) || unset.some((name) => typeof name !== "string")) throw badValue("unset is no list of names");
    const pk = pkOf(cls, own(args, "key"));
    const moves = (property, i) => unset.includes(property) || (Object.hasOwn(set, property) && set[property] !== args.key[i]);
    if (cls.key.some(moves)) throw new Fault("key_mismatch", "A", "a patch cannot change the key");
    write.expect(cls, pk, own(args, "ifVersion"));
    const old = write.documents(cls).get(pk);
    if (!old || old.deleted) throw new Fault("not_found", "N", "no such document");
    const data = { ...old.data };
    for (const name of unset) delete data[name];
    Object.assign(data, set);
    write.put(cls, pk, data);
  },
  "doc.delete"(write, args) {
    const cls = classOf(write.engine, args);
    const pk = pkOf(cls, own(args, "key"));
    write.expect(cls, pk, own(args, "ifVersion"));
    const old = write.documents(cls).get(pk);
    if (!old || old.deleted) throw new Fault("not_found", "N", "no such document");
    write.delete(cls, pk);
  },
  batch(write, args) {
    const ops = isMap(args) ? own(args, "ops") : undefined;
    if (!Array.isArray(ops)) throw badValue("ops is no list");
    if (ops.length > 500) throw new Fault("too_large", "A", "more than 500 operations");
    ops.forEach((op, i) => {
      try {
        if (!isMap(op) || !isText(own(op, "name")) || !Object.hasOwn(op, "args")) throw badValue("an operation has a name and arguments");
        if (op.name === "batch") throw badValue("a batch in a batch");
        execute(write, op);
      } catch (fault) {
        fault.message = `operation ${i} of the batch: ${fault.message}`;
        throw fault;
      }
    });
  },
  /** An operation of this server's own: it shows a code of its own. */
  credit() {
    throw new Fault("credit_limit", "A", "The account has no credit left.", { phase: 1 });
  },
};

function execute(write, { name, args }) {
  if (!Object.hasOwn(OPERATIONS, name)) throw new Fault("unknown_operation", "A", "no such operation");
  OPERATIONS[name](write, args);
}

class Engine {
  constructor({ schema, clock, retentionMs, pageBytes }) {
    Object.assign(this, { classes: parseSchema(schema), clock, retentionMs, pageBytes, listeners: new Set(), tries: new Map() });
    this.db = new Database(clock);
  }
  tellNow() {
    return (this.db.told = Math.max(this.clock(), this.db.told, this.db.highest));
  }
  commit(write) {
    if (write.changed.size) this.db.highest = Math.max(this.db.highest, write.now);
    if (write.changed.size) for (const listener of this.listeners) listener(write.org, write.changed, write.now);
  }
  /** Executes an operation, or gives `{ fault, keepFault }` if it is not executed. */
  operate(org, request, op) {
    const write = new Write(this, org);
    const kept = under(this.db.operations, org);
    const sessions = under(this.db.sessions, org);
    const last = sessions.get(request.session) ?? 0;
    const refuse = (code, kind, message) => ({ fault: new Fault(code, kind, message).toValue() });
    if (request.epoch && !same(request.epoch, this.db.epoch)) return refuse("contention", "C", "another epoch");
    const known = kept.get(op.id);
    if (known) {
      if (known.name !== undefined && known.name !== op.name) return refuse("bad_value", "A", "the id has another name");
      if (op.seq === last + 1) sessions.set(request.session, op.seq);
      return { result: resultOf(op.id, known) };
    }
    if (op.seq > last + 1) return refuse("order_gap", "C", "operations before it are missing");
    if (op.seq <= last) return refuse("session_reused", "A", "the number is another operation's");
    const earlier = kept.get(op.after);
    if (op.after !== undefined && (!earlier || earlier.refused)) return refuse("order_held", "C", "it waits for another one");
    let result;
    try {
      execute(write, op);
      result = { id: op.id, ok: { v: write.given } };
    } catch (error) {
      write.rollBack();
      write.changed.clear();
      let fault = error instanceof Fault ? error : new Fault("internal", "B", "the operation broke", { phase: 1 });
      if (NOT_EXECUTED.includes(fault.kind)) {
        if (!this.isTenth(org, request.session, op.id, fault)) return { fault: fault.toValue() };
        fault = new Fault("internal", "B", fault.message, { phase: 1 });
      }
      result = { id: op.id, fault: fault.toValue() };
    }
    kept.set(op.id, { v: write.given, refused: !result.ok, name: op.name, result, at: this.clock() });
    sessions.set(request.session, op.seq);
    this.commit(write);
    return { result };
  }
  isTenth(org, session, id, { phase, kind }) {
    if (phase !== 1 || kind === "O") return false;
    const front = this.tries.get(`${org} ${session}`);
    const count = front?.id === id ? front.count + 1 : 1;
    this.tries.set(`${org} ${session}`, { id, count });
    return count >= 10;
  }
  sync(org, request) {
    const results = [];
    let [weight, aside] = [0, undefined];
    for (const op of request.ops) {
      if (weight >= MIB) break;
      const { result, fault } = this.operate(org, request, op);
      if (fault) {
        aside = fault;
        break;
      }
      results.push(toWireResult(result));
      weight += weightOf(results.at(-1));
    }
    const now = this.tellNow();
    if (aside) this.complete(org, request.ops, results, aside, weight);
    const parts = [];
    const room = { bytes: this.pageBytes };
    for (const sub of request.subs) {
      if (room.bytes <= 0 && parts.length) break;
      const part = this.answer(org, sub, now, room, parts.length === 0);
      if (!part) break;
      parts.push(part);
    }
    const seq = this.db.sessions.get(org)?.get(request.session) ?? 0;
    return { p: 1, epoch: this.db.epoch, now, delta: DELTA_MS, seq, results, parts };
  }
  /** Adds the results of what is known by now behind the operation that was not executed, and its fault once. */
  complete(org, ops, results, fault, weight) {
    const kept = under(this.db.operations, org);
    const first = results.length;
    let at = -1;
    for (let i = first; i < ops.length; i++) {
      const known = kept.get(ops[i].id);
      const result = known && toWireResult(resultOf(ops[i].id, known));
      const fits = result && (known.name ?? ops[i].name) === ops[i].name && weight + weightOf(result) <= 4 * MIB;
      if (fits) {
        results.push(result);
        weight += weightOf(result);
      } else if (known && i !== first) {
        if (at >= 0) results.splice(at, 1);
        return;
      } else if (at < 0) {
        at = results.length;
        results.push({ id: ops[i].id, fault: i === first ? fault : new Fault("contention", "C", "it waits for another one").toValue() });
      }
    }
  }
  /** The changes of a def, ascending, or nothing if there is no such def. */
  changes(org, def) {
    const [, name, collection, hash] = DEF.exec(def) ?? [];
    const cls = this.classes.get(name);
    if (!cls?.sync || (collection && !(cls.collections.has(collection) && hash))) return undefined;
    const documents = this.db.documents.get(`${org} ${name}`) ?? new Map();
    let changes;
    if (collection) {
      const members = [...(this.db.memberships.get(`${org} ${def}`) ?? [])];
      changes = members.map(([pk, { v, state }]) => ({ pk, ...(state === "alive" && documents.get(pk)), v, state }));
    } else {
      const all = hash ? [[hash, documents.get(hash)]].filter(([, document]) => document) : [...documents];
      changes = all.map(([pk, document]) => ({ pk, ...document, state: document.deleted ? "deleted" : "alive" }));
    }
    return changes.sort(ascending);
  }
  answer(org, [def, v, cursor], now, room, isFirst) {
    const changes = this.changes(org, def);
    if (!changes) return { def, fault: unknownDef().toValue() };
    let at = { now, after: undefined, total: undefined };
    if (cursor !== undefined && !(at = this.readCursor(cursor, org, def, v))) {
      return { def, fault: new Fault("bad_cursor", "N", "no cursor of this answer").toValue() };
    }
    const isEnded = ({ maxLife }) => maxLife !== undefined && maxLife * 60_000 <= now;
    const goneFrom = v === 0 ? at.now - DELTA_MS : 0;
    const isListed = (change) => change.v >= v && ((change.state === "alive" && !isEnded(change)) || change.v >= goneFrom);
    const listed = changes.filter(isListed);
    const total = at.total ?? listed.filter(({ state }) => state !== "left").length;
    const part = { def, rows: [], left: [], total };
    let last;
    for (const change of listed) {
      if (at.after && ascending(change, { v: at.after[0], pk: at.after[1] }) <= 0) continue;
      const isDeleted = change.state === "deleted" || isEnded(change);
      const item = change.state === "left" ? [change.pk, change.v] : toWire(rowOf(change.pk, { ...change, deleted: isDeleted }));
      const weight = weightOf(item);
      if (weight > room.bytes && (last || !isFirst)) {
        if (!last) return undefined;
        room.bytes = 0;
        return { ...part, next: this.writeCursor({ now: at.now, after: last, total }, org, def, v) };
      }
      room.bytes -= weight;
      last = [change.v, change.pk];
      (change.state === "left" ? part.left : part.rows).push(item);
    }
    if (v === 0 || v < this.db.horizon) {
      part.present = changes.filter((change) => change.state === "alive" && !isEnded(change)).map(({ pk }) => pk);
      room.bytes -= 24 * part.present.length;
    }
    return part;
  }
  sign(payload, org, def, v) {
    const bound = JSON.stringify([org, def, v, this.db.epoch, payload]);
    return createHmac("sha256", this.db.cursorKey).update(bound).digest("base64url");
  }
  writeCursor(at, org, def, v) {
    const payload = Buffer.from(JSON.stringify(at)).toString("base64url");
    return `${payload}.${this.sign(payload, org, def, v)}`;
  }
  readCursor(cursor, org, def, v) {
    const [payload, signature] = cursor.split(".");
    if (signature !== this.sign(payload, org, def, v)) return undefined;
    return JSON.parse(Buffer.from(payload, "base64url").toString());
  }
  purge() {
    const { db } = this;
    const horizon = Math.max(db.horizon, this.clock() - this.retentionMs);
    const isOver = ({ v, deleted, maxLife }) =>
      v < horizon && (deleted || (maxLife !== undefined && maxLife * 60_000 + this.retentionMs <= this.clock()));
    let went = false;
    const remove = (rows, pk) => (went = rows.delete(pk));
    for (const [name, rows] of db.documents) {
      for (const [pk, document] of rows) {
        if (!isOver(document)) continue;
        for (const link of document.links) db.memberships.get(`${name}/${link}`)?.delete(pk);
        remove(rows, pk);
      }
    }
    for (const rows of db.memberships.values()) {
      for (const [pk, { v, state }] of rows) if (state !== "alive" && v < horizon) remove(rows, pk);
    }
    if (went) db.horizon = horizon;
    for (const rows of db.operations.values()) {
      for (const kept of rows.values()) if (kept.at + 90 * DAY_MS <= this.clock()) delete kept.result, delete kept.name;
    }
  }
  restore(copy) {
    const [ms] = this.db.epoch;
    this.db = copy.copy();
    this.db.epoch = [Math.max(this.clock(), ms + 1), randomBytes(8).toString("hex")];
  }
}

function resultOf(id, { result, refused }) {
  if (result) return result;
  const fault = refused ? new Fault("internal", "B", "its refusal is too old") : new Fault("forgotten", "N", "its result is too old");
  return { id, fault: fault.toValue() };
}

// ---- Messages ----

const isCount = (holder, key) => {
  const value = own(holder, key);
  return Number.isSafeInteger(value) && value >= 0 && !floats.get(holder)?.has(key);
};

function readRequest(message) {
  if (!isMap(message)) throw malformed("the message is no map");
  if (!isCount(message, "p")) throw malformed("p is no number");
  if (message.p !== 1) throw new Fault("wrong_protocol", "D", "this server speaks protocol 1", { status: 400 });
  if (!isText(own(message, "session"))) throw malformed("session");
  const { session, epoch, ops = [], subs = [] } = message;
  if (epoch !== undefined) {
    const isEpoch = Array.isArray(epoch) && epoch.length === 2 && isCount(epoch, 0) && typeof epoch[1] === "string";
    if (!isEpoch || Buffer.byteLength(epoch[1]) > 1024) throw malformed("epoch");
  }
  if (!Array.isArray(ops) || !Array.isArray(subs)) throw malformed("ops and subs are lists");
  if (ops.length > 500 || subs.length > 1000) throw new Fault("too_large", "A", "too many operations or subscriptions", { status: 413 });
  for (const op of ops) {
    if (!isMap(op) || !isText(own(op, "id")) || !isText(own(op, "name"))) throw malformed("an operation has an id and a name");
    if (!isCount(op, "seq") || op.seq < 1 || !isCount(op, "at")) throw malformed("an operation has a seq and an at");
    if (!Object.hasOwn(op, "args")) throw malformed("an operation has args");
    if (Object.hasOwn(op, "after") && !isText(op.after)) throw malformed("after is an id");
    if (depthOf(op.args) > 32) throw tooDeep();
  }
  for (const sub of subs) {
    const isSub = Array.isArray(sub) && (sub.length === 2 || sub.length === 3) && isDef(sub[0]) && isCount(sub, 1);
    if (!isSub || (sub.length === 3 && !isText(sub[2]))) throw malformed("a subscription is a def, a version and a cursor");
  }
  return { session, epoch, ops, subs };
}

function isDef(def) {
  const [, , collection, hash] = (typeof def === "string" && DEF.exec(def)) || [undefined];
  return typeof def === "string" && DEF.test(def) && !(collection && !hash);
}

// ---- HTTP ----

const FORMS = {
  "application/msgpack": { decode: decodeMsgpack, encode: encodeMsgpack },
  "application/json": { decode: (bytes) => decodeJson(text(bytes)), encode: (value) => Buffer.from(encodeJson(value)) },
};

/** The org of a path `{base}/{org}/{what}`, and what is asked of it. Any base is taken: tests tell sessions by it. */
function readPath(url) {
  const path = url.split("?")[0].split("/");
  const [org, what] = path.slice(-2);
  if (path.at(-2) === "file" && path.length > 3) throw new Fault("not_supported", "A", "there are no files", { status: 501 });
  if (path.length < 3 || (what !== "sync" && what !== "live")) throw new Fault("not_found", "N", "no such path", { status: 404 });
  let name = "";
  try {
    name = decodeURIComponent(org);
  } catch {
    // It is no name then.
  }
  return { what, name };
}

function checkOrg(name) {
  if (!ORG.test(name)) throw new Fault("unknown_org", "N", "no name of an org", { status: 404 });
}

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= 4 * MIB) chunks.push(chunk);
  }
  if (size > 4 * MIB) throw new Fault("too_large", "A", "the body has more than 4 MiB", { status: 413 });
  return new Uint8Array(Buffer.concat(chunks));
}

function headersFor(request) {
  const origin = request.headers.origin ?? "*";
  return { "Cache-Control": "no-store", "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "Retry-After", Vary: "Origin" };
}

function answerOptions(request, response) {
  const headers = {
    "Access-Control-Allow-Origin": request.headers.origin ?? "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
    "Cache-Control": "no-store",
    Vary: "Origin",
  };
  if (request.headers["access-control-request-private-network"]) headers["Access-Control-Allow-Private-Network"] = "true";
  response.writeHead(204, headers).end();
}

async function serve(engine, trouble, request, response) {
  if (request.method === "OPTIONS") return answerOptions(request, response);
  const type = (request.headers["content-type"] ?? "").split(";")[0].trim().toLowerCase();
  const [contentType, form] = Object.hasOwn(FORMS, type) ? [type, FORMS[type]] : ["application/json", FORMS["application/json"]];
  const headers = { ...headersFor(request), "Content-Type": contentType };
  let status = 200;
  let reply;
  try {
    const { what, name } = readPath(request.url);
    if (what === "live") throw new Fault("not_found", "N", "a socket is opened by an upgrade", { status: 404 });
    if (request.method !== "POST") throw new Fault("not_found", "N", "the method is POST", { status: 405 });
    checkOrg(name);
    const body = await readBody(request);
    const weather = trouble(request);
    if (weather === "lost request") return response.destroy();
    if (weather === "unavailable") throw new Fault("unavailable", "O", "closed for a while", { status: 503 });
    if (!Object.hasOwn(FORMS, type)) throw malformed("the Content-Type is neither msgpack nor JSON");
    reply = engine.sync(name, readRequest(form.decode(body)));
    if (weather === "lost reply") return response.destroy();
  } catch (error) {
    const fault = error instanceof Fault ? error : new Fault("server_error", "X", "the server failed");
    if (!(error instanceof Fault)) console.error(error);
    status = fault.status ?? 500;
    reply = fault.toValue();
  }
  if (status === 503) headers["Retry-After"] = "0";
  response.writeHead(status, headers).end(form.encode(reply));
}

// ---- The socket ----

/** One WebSocket: frames in, frames out. It keeps the form of the last message. */
class Socket {
  constructor(engine, org, stream) {
    Object.assign(this, { engine, org, stream, defs: new Set(), hints: new Map(), pending: Buffer.alloc(0), pieces: [] });
    this.form = 1;
    this.greeting = setTimeout(() => this.close(1008, "timeout"), 10_000);
    this.pulse = setInterval(() => this.send({}), 8000);
    this.listener = (changed, defs, v) => changed === org && this.hint(defs, v);
    engine.listeners.add(this.listener);
    stream.on("data", (chunk) => this.receive(chunk));
    stream.on("close", () => this.end());
  }
  end() {
    clearTimeout(this.greeting);
    clearInterval(this.pulse);
    this.engine.listeners.delete(this.listener);
    this.stream.destroy();
  }
  frame(opcode, payload) {
    if (this.stream.destroyed || this.isClosing) return;
    const length = payload.length;
    const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
    head[0] = 0x80 | opcode;
    head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
    if (head.length === 4) head.writeUInt16BE(length, 2);
    if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
    this.stream.write(Buffer.concat([head, payload]));
  }
  send(message) {
    const form = FORMS[this.form === 1 ? "application/json" : "application/msgpack"];
    this.frame(this.form, Buffer.from(form.encode(message)));
  }
  close(code, reason) {
    const head = Buffer.alloc(2);
    head.writeUInt16BE(code);
    this.frame(8, Buffer.concat([head, Buffer.from(reason)]));
    this.isClosing = true;
    this.stream.end();
    this.end();
  }
  hint(defs, v) {
    for (const def of defs) if (this.defs.has(def)) this.hints.set(def, v);
    if (this.hints.size === 0 || this.isHinting) return;
    this.isHinting = true;
    setImmediate(() => {
      this.isHinting = false;
      this.send({ hints: [...this.hints] });
      this.hints.clear();
    });
  }
  receive(chunk) {
    this.pending = Buffer.concat([this.pending, chunk]);
    for (;;) {
      const { pending } = this;
      if (this.isClosing || pending.length < 2) return;
      const short = pending[1] & 127;
      const start = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (pending.length < start + 4) return;
      const length = short < 126 ? short : short === 126 ? pending.readUInt16BE(2) : Number(pending.readBigUInt64BE(2));
      if (!(pending[1] & 128) || pending[0] & 0x70) return this.close(1008, "malformed");
      if (length > MIB) return this.close(1008, "too_large");
      if (pending.length < start + 4 + length) return;
      const mask = pending.subarray(start, start + 4);
      const payload = pending.subarray(start + 4, start + 4 + length).map((byte, i) => byte ^ mask[i & 3]);
      this.pending = pending.subarray(start + 4 + length);
      this.take(pending[0] & 15, Boolean(pending[0] & 128), payload);
    }
  }
  take(opcode, isLast, payload) {
    if (opcode === 8) return this.close(payload.length >= 2 ? payload.readUInt16BE(0) : 1000, "");
    if (opcode === 9) return this.frame(10, payload);
    if (opcode === 10) return;
    if (opcode !== 0) this.incoming = opcode;
    this.pieces.push(payload);
    if (!isLast) return;
    const whole = Buffer.concat(this.pieces);
    this.pieces = [];
    try {
      this.form = this.incoming;
      this.subscribe(FORMS[this.form === 1 ? "application/json" : "application/msgpack"].decode(new Uint8Array(whole)));
    } catch (error) {
      if (!(error instanceof Fault)) console.error(error);
      this.close(error instanceof Fault ? 1008 : 1011, error.code ?? "server_error");
    }
  }
  subscribe(message) {
    const subs = isMap(message) ? own(message, "subs") : undefined;
    if (!Array.isArray(subs) || !isText(own(message, "session")) || !subs.every(isDef)) throw malformed("session and subs");
    if (subs.length > 1000) throw new Fault("too_large", "A", "too many subscriptions");
    clearTimeout(this.greeting);
    const live = subs.filter((def) => this.engine.changes(this.org, def));
    const refused = subs.filter((def) => !live.includes(def)).map((def) => [def, unknownDef().toValue()]);
    this.defs = new Set(live);
    this.send({ live, ...(refused.length && { refused }) });
  }
}

function upgrade(engine, trouble, sockets, request, stream) {
  stream.on("error", () => stream.destroy());
  if (trouble(request)) return stream.destroy();
  try {
    const { what, name } = readPath(request.url);
    if (what !== "live") throw new Fault("not_found", "N", "a socket is at live", { status: 404 });
    checkOrg(name);
    const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    const lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", `Sec-WebSocket-Accept: ${accept}`];
    stream.write(`${lines.join("\r\n")}\r\n\r\n`);
    const socket = Object.assign(new Socket(engine, name, stream), { url: request.url });
    sockets.add(socket);
    stream.on("close", () => sockets.delete(socket));
  } catch (error) {
    const body = JSON.stringify(error.toValue?.() ?? {});
    const headers = { ...headersFor(request), "Content-Type": "application/json", "Content-Length": body.length, Connection: "close" };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    stream.end(`HTTP/1.1 ${error.status ?? 500} Refused\r\n${lines.join("")}\r\n${body}`);
  }
}

// ---- Starting ----

/**
 * Starts a server. `trouble` is asked before each request what becomes of it: "lost request", "lost reply", "unavailable",
 * or nothing. A socket is refused by any of them.
 * `backup` keeps a copy of the database; `restore` puts the last copy back, under a new epoch.
 */
export async function start({ schema, port = 0, clock = Date.now, retentionMs = 365 * DAY_MS, pageBytes = MIB, trouble = () => undefined }) {
  const engine = new Engine({ schema, clock, retentionMs, pageBytes });
  const sockets = new Set();
  let [http, copy, bound] = [undefined, engine.db.copy(), port];
  const listen = async () => {
    http = createServer((request, response) => {
      serve(engine, trouble, request, response).catch(() => response.destroy());
    });
    http.on("upgrade", (request, stream) => upgrade(engine, trouble, sockets, request, stream));
    await new Promise((resolve, reject) => http.on("error", reject).listen(bound, "127.0.0.1", resolve));
    bound = http.address().port;
  };
  /** Closes the sockets of the paths that begin so: all of them, unless told. */
  const closeSockets = (base = "") => {
    for (const socket of [...sockets]) if (socket.url.startsWith(base)) socket.close(1012, "stopping");
  };
  const stop = async () => {
    closeSockets();
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  };
  const restart = async () => {
    await stop();
    engine.tries.clear();
    await listen();
  };
  await listen();
  return {
    url: `http://127.0.0.1:${bound}`,
    stop,
    restart,
    closeSockets,
    backup: () => void (copy = engine.db.copy()),
    async restore() {
      await stop();
      engine.restore(copy);
      await listen();
    },
    purge: () => engine.purge(),
    /** A write of the server's own. It gives the version, or throws the fault. */
    write(org, name, args) {
      const write = new Write(engine, org);
      try {
        execute(write, { name, args });
      } catch (error) {
        write.rollBack();
        throw error;
      }
      engine.commit(write);
      return write.given;
    },
    /** The living documents of an org, ascending by class and pk, each with the defs that hold it. */
    dump(org) {
      const now = engine.tellNow();
      const isAlive = ({ deleted, maxLife }) => !deleted && !(maxLife * 60_000 <= now);
      return [...engine.classes.keys()].sort().flatMap((name) => {
        const rows = [...(engine.db.documents.get(`${org} ${name}`) ?? [])].filter(([, document]) => isAlive(document));
        return rows.sort(([a], [b]) => compare(a, b)).map(([pk, { v, data, links }]) => {
          return { class: name, pk, v, data, defs: [name, `${name}@${pk}`, ...links.map((link) => `${name}/${link}`)] };
        });
      });
    },
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const option = (name) => process.argv[process.argv.indexOf(`--${name}`) + 1];
  const schema = JSON.parse(readFileSync(option("schema"), "utf8"));
  const server = await start({ schema, port: Number(option("port")) });
  console.log(server.url);
}
