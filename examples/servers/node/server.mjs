// A server of the Escale protocol, written from docs/protocol.md and docs/schema.md alone. It is for an author
// who writes a server: read it from the end, `main`, or from the beginning. The names are those of the page.
//
//     node server.mjs --schema schema.json --port 7700 --data data.log
//
// Everything is in memory. A line of the file `--data` has the changes of one write; at the start they are replayed. So a
// write is whole, but the file only grows, and a pull looks at every document of its class: a real server has a database.
//
// Invariant: a request is served without interruption, so that no write happens between its `now` and its snapshot.
import { encode } from "@msgpack/msgpack";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { WebSocketServer } from "ws";

import { FORMS, Unreadable, decodeJson, depthOf, encodeJson, floats, isMap, own, same } from "./forms.mjs";

const MIB = 1 << 20;
const DAY_MS = 86_400_000;
const DELTA_MS = 2000; // A write takes no time here, and there is one clock: the least that the page allows is 1,000.
const AHEAD_MS = 1000; // A `now` is stored in steps of this length.
const MINUTES_MAX = 150_119_987_579;
const ITEMS_MAX = 100_000;

const NAME = "[A-Za-z][A-Za-z0-9]{0,63}";
const DEF = new RegExp(`^(${NAME})(?:/(${NAME})@([-\\w]{22})|@([-\\w.:]{1,1024}))?$`);
const ORG = /^[-\w.:]{1,1024}$/;

// ---- Faults ----

export class Fault extends Error {
  constructor(code, kind, message = "", more = {}) {
    super(message);
    Object.assign(this, { code, kind, phase: 0 }, more);
  }
  toMap() {
    const { code, kind, phase, message, doc } = this;
    return { code, kind, phase, message, ...(doc && { doc }) };
  }
  /** Whether the operation was not executed, so that its number stays free. */
  get isPassing() {
    return "CXO".includes(this.kind) || this.code === "session_reused" || this.isMistaken === true;
  }
}
const malformed = (message) => new Fault("malformed", "B", message, { status: 400 });
const tooDeep = () => new Fault("too_deep", "A", "nested too deep", { status: 400 });
const tooLarge = (message) => new Fault("too_large", "A", message, { status: 413 });
const badValue = (message) => new Fault("bad_value", "A", message, { phase: 1 });
const badKey = (message) => new Fault("bad_key", "A", message, { phase: 1 });
const unknownDef = () => new Fault("unknown_def", "N", "no such class or collection");

// ---- Schema ----

const isString = (value) => typeof value === "string";
const isStrings = (value) => Array.isArray(value) && value.every(isString);
const INDEX_TYPES = { hash: isString, string: isString, int: Number.isSafeInteger, float: (value) => typeof value === "number", list: isStrings, bool: (value) => typeof value === "boolean" };

export function shaS(text) {
  return createHash("sha256").update(text, "utf8").digest().subarray(3, 19).toString("base64url");
}

function classesOf(schema) {
  const classes = new Map(Object.entries(schema).map(([name, { key, sync = true, release = 1, collections = {}, indexes = {}, in: parent, raw, clock }]) => {
    const all = Object.entries(indexes).map(([property, index]) => ({ property, ...(isString(index) ? { type: index } : index) }));
    return [name, { name, key, sync, release, collections, indexes: all, parent, raw, items: [], isNumbered: clock === "sequence" }];
  }));
  for (const cls of classes.values()) {
    cls.parent = classes.get(cls.parent);
    if (!cls.parent) continue;
    // Each item is a member of one collection for ever. Its hash is the pk of the parent.
    cls.collections = { in: { key: cls.key.slice(0, cls.parent.key.length) } };
    cls.parent.items.push(cls);
    cls.isNumbered = cls.parent.isNumbered;
  }
  return classes;
}

/** Whether each document of a class has a tree of its own, which may be one of numbers only. */
const isTree = (cls) => cls.items.length > 0 || (cls.isNumbered && !cls.parent);
/** The name of the tree that a document is in: an item is in its parent's, and knows it by its one link. */
const treeOf = (cls, pk, links) => (cls.parent ? `${cls.parent.name} ${links[0].split("@")[1]}` : `${cls.name} ${pk}`);

function pkOf(org, cls, key) {
  if (!isStrings(key) || key.length !== cls.key.length) throw badKey("a key is a list of texts");
  if (key.slice(0, -1).some((value) => value.includes("/"))) throw badKey("only the last key property may hold a slash");
  if (cls.parent && key.slice(cls.parent.key.length).join("/").length > 255) throw badKey("the own part of an item's key has more than 255 characters");
  if (cls.name === "Hdr" && org !== "ROOT") throw badKey("only the org ROOT has a Hdr");
  if (cls.name === "Hdr") return "1";
  if (cls.name !== "Org" || key.length > 1) return shaS(key.join("/"));
  if (!ORG.test(key[0])) throw badKey("the code of an org is a name of an org");
  return key[0];
}

/** The collections that hold a document, each as `name@hash`. */
function linksOf(cls, data) {
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

function checkData(cls, data) {
  if (encode(data).length > MIB) throw new Fault("too_large", "A", "the document has more than 1 MiB", { phase: 1 });
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

// ---- Database ----

/** Tables of rows in memory, and the file that can make them again. A row is never changed, only replaced. */
export class Database {
  constructor({ file, clock }) {
    Object.assign(this, { file, tables: new Map() });
    const lines = file && existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
    for (const line of lines) for (const [table, key, value] of decodeJson(Buffer.from(line))) this.put(table, key, value);
    if (!this.meta("epoch")) {
      const first = { epoch: [clock(), randomBytes(8).toString("hex")], key: randomBytes(32), highest: 0, told: 0, horizon: 0 };
      this.commit(Object.entries(first).map(([key, value]) => ["meta", key, value]));
    }
  }
  table(name) {
    return this.tables.get(name) ?? this.tables.set(name, new Map()).get(name);
  }
  meta(key) {
    return this.table("meta").get(key);
  }
  put(table, key, value) {
    if (value === undefined || value === null) this.table(table).delete(key);
    else this.table(table).set(key, value);
  }
  commit(changes) {
    if (this.file && changes.length) appendFileSync(this.file, `${encodeJson(changes)}\n`);
    for (const change of changes) this.put(...change);
  }
  renewEpoch(now) {
    this.commit([["meta", "epoch", [Math.max(now, this.meta("epoch")[0] + 1), randomBytes(8).toString("hex")]]]);
  }
}

const NO_TREE = { floor: 0, items: 0, n: 0, horizon: 0 };
const rowOf = (pk, { v, deleted, maxLife, data }) => (deleted ? { pk, v, deleted } : { pk, v, maxLife, data });

// ---- One write ----

/** The changes of one operation. They are applied to the database together, or not at all. */
export class Write {
  constructor(server, org) {
    const { db } = server;
    Object.assign(this, { server, db, org, given: 0, changes: new Map(), defs: new Map(), taken: new Set(), kept: new Map() });
    this.now = Math.max(server.clock(), server.told, db.meta("told"), db.meta("highest") + 1);
  }
  get(table, key) {
    const name = `${table}\n${key}`;
    return this.changes.has(name) ? this.changes.get(name)[2] : this.db.table(table).get(key);
  }
  set(table, key, value) {
    this.changes.set(`${table}\n${key}`, [table, key, value ?? null]);
  }
  /** A document or tombstone. An item below the floor of its tree is deleted, at the floor. */
  document(cls, pk) {
    const found = this.get(`documents ${this.org} ${cls.name}`, pk) ?? undefined;
    const floor = found && cls.parent ? this.tree(treeOf(cls, pk, found.links)).floor : 0;
    return found?.v < floor ? { ...found, v: floor, deleted: true } : found;
  }
  tree(name) {
    return this.get(`trees ${this.org}`, name) ?? NO_TREE;
  }
  setTree(name, change) {
    this.set(`trees ${this.org}`, name, { ...this.tree(name), ...change });
  }
  /** The version of all that this write writes in a tree. With the clock `sequence`, it takes the tree's next number once. */
  versionIn(cls, tree) {
    if (!cls.isNumbered) return this.now;
    if (!this.taken.has(tree)) this.setTree(tree, { n: this.tree(tree).n + 1 });
    this.taken.add(tree);
    return this.tree(tree).n;
  }
  /** A document stays as it is, and its version counts. */
  keep(cls, tree, v) {
    if (cls.isNumbered) this.kept.set(tree, Math.max(v, this.kept.get(tree) ?? 0));
    else this.given = Math.max(this.given, v);
  }
  /** The numbers of the trees that it wrote in, or was asked to. */
  get trees() {
    const names = [...new Set([...this.taken, ...this.kept.keys()])].sort();
    return names.map((tree) => [...tree.split(" "), this.taken.has(tree) ? this.tree(tree).n : this.kept.get(tree)]);
  }
  /** Stores a document or tombstone of version `v`, or its membership. Rows have the time `at`, by which they are purged. */
  store(cls, pk, v, document, link, state) {
    const at = this.now;
    if (link) this.set(`members ${this.org} ${cls.name}/${link}`, pk, state && { v, at, state });
    else this.set(`documents ${this.org} ${cls.name}`, pk, document && { v, at, ...document });
    for (const def of link ? [`${cls.name}/${link}`] : [cls.name, `${cls.name}@${pk}`]) this.defs.set(def, v);
    this.given = this.now;
  }
  put(cls, pk, given) {
    const data = { ...given, release: own(given, "release") ?? cls.release };
    const old = this.document(cls, pk);
    checkData(cls, data);
    const links = linksOf(cls, data);
    const tree = treeOf(cls, pk, links);
    if (cls.parent) living(this, cls.parent, links[0].split("@")[1]);
    if (old && !old.deleted) {
      if (same(old.data, data)) return this.keep(cls, tree, old.v);
      const fixed = (all) => all.filter((link) => !cls.collections[link.split("@")[0]]?.mutable).sort().join();
      if (fixed(links) !== fixed(old.links)) throw new Fault("immutable_key", "A", "a collection is not mutable", { phase: 1 });
    }
    this.checkUnique(cls, pk, data);
    const v = this.versionIn(cls, tree);
    if (!old || old.deleted) this.created(cls, tree, v);
    for (const link of old?.links ?? []) if (!links.includes(link)) this.store(cls, pk, v, undefined, link, "left");
    for (const link of links) this.store(cls, pk, v, undefined, link, "alive");
    this.store(cls, pk, v, { deleted: false, maxLife: data.maxLife ?? undefined, links, data });
  }
  /** A parent begins a tree; an item is one more in it. */
  created(cls, tree, v) {
    const { items } = this.tree(tree);
    if (cls.items.length) this.setTree(tree, { floor: v, items: 0 });
    if (cls.parent && items >= ITEMS_MAX) throw new Fault("too_large", "A", "the parent has too many items", { phase: 1 });
    if (cls.parent) this.setTree(tree, { items: items + 1 });
  }
  /** Looks at every document of the class. A real server has an index. */
  checkUnique(cls, pk, data) {
    for (const { property, unique, global } of cls.indexes) {
      const value = own(data, property) ?? undefined;
      if (!unique || value === undefined) continue;
      const isHolder = (document) => document && !document.deleted && own(document.data, property) === value;
      for (const [table, rows] of this.db.tables) {
        const [kind, org, name] = table.split(" ");
        if (kind !== "documents" || name !== cls.name || (org !== this.org && !global)) continue;
        for (const [other] of [...rows, ...[...this.changes.values()].filter((one) => one[0] === table).map((one) => [one[1]])]) {
          if (!(other === pk && org === this.org) && isHolder(this.get(table, other))) throw new Fault("not_unique", "A", `the index ${property} is unique`, { phase: 1 });
        }
      }
    }
  }
  delete(cls, pk) {
    const { links, data } = this.document(cls, pk);
    const tree = treeOf(cls, pk, links);
    const v = this.versionIn(cls, tree);
    for (const link of links) this.store(cls, pk, v, undefined, link, cls.sync ? "deleted" : undefined);
    const key = Object.fromEntries(cls.key.map((property) => [property, data[property]]));
    this.store(cls, pk, v, cls.sync ? { deleted: true, links, data: key } : undefined);
    if (cls.parent) this.setTree(tree, { items: this.tree(tree).items - 1 });
    if (cls.items.length) this.endItems(cls, pk, tree, v);
  }
  /**
   * All items end with their parent. Nothing is written of them, except of those that this write itself has put. Sockets
   * hear of each: a real server has an index, or knows the parents of the items that sockets have registered.
   */
  endItems(cls, pk, tree, v) {
    for (const items of cls.items) {
      this.defs.set(`${items.name}/in@${pk}`, v);
      for (const [key, { links }] of this.db.table(`documents ${this.org} ${items.name}`)) {
        if (links[0] === `in@${pk}`) this.defs.set(`${items.name}@${key}`, v);
      }
      for (const [table, key, item] of [...this.changes.values()]) {
        const isOwn = table === `documents ${this.org} ${items.name}` && item.links[0] === `in@${pk}`;
        if (isOwn && !item.deleted) this.delete(items, key);
      }
    }
    this.setTree(tree, { floor: v, items: 0 });
  }
  expect(cls, pk, ifVersion) {
    if (ifVersion === undefined || ifVersion === null) return;
    const old = this.document(cls, pk);
    const isGone = !old || old.deleted;
    let holds = ifVersion === 0 ? isGone : old?.v === ifVersion;
    if (isMap(ifVersion)) {
      const earlier = this.get(`operations ${this.org}`, `${this.account} ${ifVersion.op}`);
      if (!earlier || earlier.refused) throw new Fault("order_held", "C", "the earlier operation was refused, or is not known");
      if (cls.isNumbered && !earlier.result) throw new Fault("order_held", "C", "its numbers are too old");
      const isTheTree = ([name, parent]) => old && treeOf(cls, pk, old.links) === `${name} ${parent}`;
      const v = cls.isNumbered ? earlier.result.ok.trees?.find(isTheTree)?.[2] : earlier.v;
      holds = (old && old.v <= v) || (v === 0 && isGone);
    }
    const doc = old ? rowOf(pk, old) : { pk, v: 0, deleted: true };
    if (!holds) throw new Fault("version_conflict", "A", "the document has another version", { phase: 1, doc });
  }
}

// ---- Operations ----

function begin(write, args) {
  if (!isMap(args) || !isString(own(args, "class"))) throw badValue("the arguments name no class");
  const cls = write.server.classes.get(args.class);
  if (!cls) throw new Fault("unknown_class", "N", "no such class");
  const ifVersion = own(args, "ifVersion") ?? null;
  const isGood = ifVersion === null || (Number.isSafeInteger(ifVersion) && ifVersion >= 0) || (isMap(ifVersion) && isString(own(ifVersion, "op")));
  if (!isGood) throw badValue("ifVersion is no version");
  return cls;
}

function living(write, cls, pk) {
  const old = write.document(cls, pk);
  if (!old || old.deleted) throw new Fault("not_found", "N", "no such document", { phase: 1 });
  return old;
}

export const OPERATIONS = {
  "doc.put"(write, args) {
    const cls = begin(write, args);
    const data = own(args, "data");
    if (!isMap(data)) throw badValue("data is no map");
    const pk = pkOf(write.org, cls, cls.key.map((property) => own(data, property)));
    const old = write.document(cls, pk);
    const isOther = old && !old.deleted && cls.key.some((property) => old.data[property] !== data[property]);
    if (isOther) throw new Fault("key_mismatch", "A", "a document of the same pk has another key");
    write.expect(cls, pk, args.ifVersion);
    write.put(cls, pk, data);
  },
  "doc.patch"(write, args) {
    const cls = begin(write, args);
    const [set, unset] = [own(args, "set"), own(args, "unset") ?? []];
    if (!isMap(set) || !isStrings(unset)) throw badValue("set is no map, or unset no list of names");
    const pk = pkOf(write.org, cls, own(args, "key"));
    const moves = (property, i) => unset.includes(property) || (Object.hasOwn(set, property) && set[property] !== args.key[i]);
    if (cls.key.some(moves)) throw new Fault("key_mismatch", "A", "a patch cannot change the key");
    write.expect(cls, pk, args.ifVersion);
    const kept = Object.entries(living(write, cls, pk).data).filter(([name]) => !unset.includes(name));
    write.put(cls, pk, { ...Object.fromEntries(kept), ...set });
  },
  "doc.delete"(write, args) {
    const cls = begin(write, args);
    const pk = pkOf(write.org, cls, own(args, "key"));
    write.expect(cls, pk, args.ifVersion);
    living(write, cls, pk);
    write.delete(cls, pk);
  },
  batch(write, args) {
    const ops = isMap(args) ? own(args, "ops") : undefined;
    if (!Array.isArray(ops)) throw badValue("ops is no list");
    if (ops.length > 500) throw new Fault("too_large", "A", "more than 500 operations");
    ops.forEach((op, i) => {
      try {
        if (!isMap(op) || !isString(own(op, "name")) || !Object.hasOwn(op, "args")) throw badValue("an operation has a name and arguments");
        if (op.name === "batch") throw badValue("a batch in a batch");
        write.server.execute(write, op);
      } catch (fault) {
        fault.message = `operation ${i} of the batch: ${fault.message}`;
        throw fault;
      }
    });
  },
};

// ---- Sync ----

export class Server {
  constructor({ schema, file, tokens, clock = Date.now, retentionMs = 365 * DAY_MS, resultsMs = 90 * DAY_MS, pageBytes = MIB }) {
    Object.assign(this, { classes: classesOf(schema), tokens, clock, retentionMs, resultsMs, pageBytes, told: 0, listeners: new Set() });
    this.operations = { ...OPERATIONS };
    this.db = new Database({ file, clock });
    this.purge();
  }
  /** The account of a token that opens an org. The file is read each time: a token that is taken out is withdrawn. */
  admit(token, org) {
    if (this.tokens === undefined) return { account: "", mayWrite: true };
    const access = own(JSON.parse(readFileSync(this.tokens, "utf8")), token ?? "");
    if (!access || access.until <= this.clock()) throw new Fault("unauthorized", "S", "the token is missing or unknown", { status: 401 });
    if (!access.orgs.includes(org)) throw new Fault("forbidden", "S", "the token does not open this org", { status: 403 });
    return { account: access.account, mayWrite: access.role !== "read" };
  }
  /** The `now` of a reply. A later one is stored ahead, so that a restart with a clock set back gives no earlier version. */
  tellNow() {
    this.told = Math.max(this.clock(), this.told, this.db.meta("highest"));
    if (this.told > this.db.meta("told")) this.db.commit([["meta", "told", this.told + AHEAD_MS]]);
    return this.told;
  }
  /** The part of a confirmation that spares a session the pull of each def that it knows up to there. */
  head() {
    return { epoch: this.db.meta("epoch"), highest: this.db.meta("highest") };
  }
  execute(write, { name, args }) {
    if (!Object.hasOwn(this.operations, name)) throw new Fault("unknown_operation", "A", "no such operation");
    this.operations[name](write, args);
  }
  commit(write) {
    if (write.defs.size) write.set("meta", "highest", write.now);
    this.db.commit([...write.changes.values()]);
    for (const listen of this.listeners) if (write.defs.size) listen(write.org, write.defs);
  }
  /** Executes an operation and returns its result. Throws a fault that is passing if it was not executed. */
  operate(org, { account, mayWrite }, { session, epoch }, op) {
    if (epoch && !same(epoch, this.db.meta("epoch"))) throw new Fault("contention", "C", "another epoch");
    let write = Object.assign(new Write(this, org), { account });
    const { last } = this.sessionOf(org, account, session);
    const [table, id] = [`operations ${org}`, `${account} ${op.id}`];
    const known = write.get(table, id);
    if (known) {
      if (known.name !== undefined && known.name !== op.name) throw new Fault("bad_value", "A", "the id has another name", { isMistaken: true });
      if (op.seq === last + 1) this.db.commit([[`sessions ${org}`, session, { account, last: op.seq }]]);
      return resultOf(op.id, known);
    }
    if (op.seq > last + 1) throw new Fault("order_gap", "C", "operations before it are missing");
    if (op.seq <= last) throw new Fault("session_reused", "A", "the number is another operation's");
    const earlier = write.get(table, `${account} ${op.after}`);
    if (op.after !== undefined && (!earlier || earlier.refused)) throw new Fault("order_held", "C", "it waits for another one");
    let result;
    try {
      if (!mayWrite) throw new Fault("forbidden", "S", "the token may only read");
      this.execute(write, op);
      result = { id: op.id, ok: { v: write.given, ...(write.trees.length && { trees: write.trees }) } };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      if (error.isPassing) throw error;
      write = new Write(this, org);
      result = { id: op.id, fault: error.toMap() };
    }
    write.set(table, id, { v: write.given, refused: !result.ok, name: op.name, result, at: this.clock() });
    write.set(`sessions ${org}`, session, { account, last: op.seq });
    this.commit(write);
    return result;
  }
  sessionOf(org, account, session) {
    const found = this.db.table(`sessions ${org}`).get(session) ?? { account, last: 0 };
    if (found.account !== account) throw new Fault("session_reused", "A", "the session is another account's");
    return found;
  }
  sync(org, caller, request) {
    const [results, { ops }] = [[], request];
    let [weight, fault] = [0, undefined];
    try {
      for (const op of ops) {
        if (weight >= MIB) break;
        results.push(this.operate(org, caller, request, op));
        weight += encode(results.at(-1)).length;
      }
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      fault = error;
    }
    const now = this.tellNow();
    if (fault) this.complete(org, caller.account, ops, results, fault);
    const [parts, room] = [[], { bytes: this.pageBytes }];
    for (const group of this.groups(request.subs)) if (!this.answerAll(org, group, now, room, parts)) break;
    const { account, last = 0 } = this.db.table(`sessions ${org}`).get(request.session) ?? {};
    const seq = account === caller.account ? last : 0;
    return { p: 1, epoch: this.db.meta("epoch"), now, delta: DELTA_MS, seq, results, parts };
  }
  /** Adds the results of operations that are known, from the one that was not executed on, and its fault once. */
  complete(org, account, ops, results, fault) {
    const [first, table] = [results.length, this.db.table(`operations ${org}`)];
    let at = -1;
    let weight = encode(results).length;
    for (let i = first; i < ops.length; i++) {
      const { id, name } = ops[i];
      const known = table.get(`${account} ${id}`);
      const result = known && (known.name ?? name) === name ? resultOf(id, known) : undefined;
      weight += result ? encode(result).length : 0;
      if (result && weight <= 4 * MIB) results.push(result);
      else if (known && i > first) {
        if (at >= 0) results.splice(at, 1);
        return;
      } else if (at < 0) {
        at = results.length;
        results.push({ id, fault: (i === first ? fault : new Fault("contention", "C", "it waits for another one")).toMap() });
      }
    }
  }
  /** The class, collection or document of a def, and the tree whose state it shows; nothing if there is no such def. */
  find(def) {
    const [, name, collection, hash, pk] = DEF.exec(def);
    const cls = this.classes.get(name);
    if (!cls?.sync || (collection && !Object.hasOwn(cls.collections, collection))) return undefined;
    if (cls.parent && !collection && !pk) return undefined;
    const isItems = cls.parent !== undefined && collection !== undefined;
    const tree = isItems ? `${cls.parent.name} ${hash}` : pk && isTree(cls) ? `${name} ${pk}` : undefined;
    if (cls.isNumbered && tree === undefined) return undefined;
    return { cls, collection, hash, pk, tree, isItems };
  }
  /** Neighbours of one tree are together. A def that is named again is left out: it would cost as much as another one. */
  groups(subs) {
    const groups = [];
    const named = new Set();
    let last;
    for (const sub of subs) {
      if (named.has(sub[0])) continue;
      named.add(sub[0]);
      const tree = this.find(sub[0])?.tree;
      if (tree !== undefined && tree === last) groups.at(-1).push(sub);
      else groups.push([sub]);
      last = tree;
    }
    return groups;
  }
  /** Answers the defs of one tree: all of them, or none if others came first. Whether each of them is whole. */
  answerAll(org, group, now, room, parts) {
    const before = parts.length;
    for (const sub of group) {
      const isFirst = parts.every(({ rows = [], left = [] }) => !rows.length && !left.length);
      const part = room.bytes > 0 || isFirst ? this.answer(org, sub, now, room, isFirst) : undefined;
      if (part) parts.push(part);
      if (part && part.next === undefined) continue;
      if (group.length > 1 && before > 0) parts.length = before;
      return false;
    }
    return true;
  }
  tree(org, name) {
    return this.db.table(`trees ${org}`).get(name) ?? NO_TREE;
  }
  /** The changes of a def, ascending by (v, pk). */
  changes(org, { cls, collection, hash, pk, tree, isItems }) {
    const { name } = cls;
    const documents = this.db.table(`documents ${org} ${name}`);
    const state = ({ deleted }) => (deleted ? "deleted" : "alive");
    let all = [...documents].map(([key, document]) => ({ ...document, pk: key, state: state(document) }));
    if (pk) {
      all = all.filter((one) => one.pk === pk).map((one) => {
        const { floor } = cls.parent ? this.tree(org, treeOf(cls, pk, one.links)) : NO_TREE;
        return one.v < floor ? { pk, v: floor, state: "deleted" } : one;
      });
    }
    if (collection) {
      const members = [...this.db.table(`members ${org} ${name}/${collection}@${hash}`)];
      all = members.map(([key, { v, state: link }]) => ({ ...(link === "alive" ? documents.get(key) : {}), pk: key, v, state: link }));
    }
    if (isItems) all = all.filter(({ v }) => v >= this.tree(org, tree).floor);
    return all.sort((a, b) => a.v - b.v || (a.pk < b.pk ? -1 : 1));
  }
  answer(org, [def, v, cursor], now, room, isFirst) {
    const found = this.find(def);
    if (!found) return { def, fault: unknownDef().toMap() };
    const changes = this.changes(org, found);
    const { floor, n, horizon } = { ...this.tree(org, found.tree), ...(!found.isItems && { floor: 0 }) };
    const { isNumbered } = found.cls;
    // A number is exact: of a time, a session may lack some changes.
    const since = isNumbered ? v + 1 : v;
    const at = cursor === undefined ? { first: isNumbered ? n : now, after: [since, ""] } : this.readCursor(cursor, org, def, v);
    if (!at) return { def, fault: new Fault("bad_cursor", "N", "no cursor of this answer").toMap() };
    const isOver = ({ state, maxLife }) => state === "alive" && maxLife !== undefined && maxLife * 60_000 <= now;
    const goneFrom = v > 0 ? 0 : isNumbered ? at.first + 1 : at.first - DELTA_MS;
    const isTold = (change) => change.v >= since && ((change.state === "alive" && !isOver(change)) || change.v >= goneFrom);
    const total = at.total ?? changes.filter((change) => isTold(change) && change.state !== "left").length;
    const part = { def, rows: [], left: [], total, ...(floor > 0 && v <= floor && { floor }), ...(isNumbered && { n }) };
    let last;
    for (const change of changes) {
      const isBehind = change.v > at.after[0] || (change.v === at.after[0] && change.pk > at.after[1]);
      if (!isTold(change) || !isBehind) continue;
      const deleted = change.state === "deleted" || isOver(change);
      const item = change.state === "left" ? [change.pk, change.v] : rowOf(change.pk, { ...change, deleted });
      const size = encode(item, { ignoreUndefined: true }).length;
      if (size > room.bytes && (last || !isFirst)) {
        if (!last) return undefined;
        room.bytes = 0;
        return { ...part, next: this.writeCursor({ first: at.first, after: last, total }, org, def, v) };
      }
      room.bytes -= size;
      last = [change.v, change.pk];
      (change.state === "left" ? part.left : part.rows).push(item);
    }
    if (v === 0 || since < (isNumbered ? horizon : this.db.meta("horizon"))) {
      part.present = changes.filter((change) => change.state === "alive" && !isOver(change)).map(({ pk }) => pk);
      room.bytes -= 24 * part.present.length;
    }
    return part;
  }
  sign(place, org, def, v) {
    const bound = JSON.stringify([org, def, v, this.db.meta("epoch"), place]);
    return createHmac("sha256", this.db.meta("key")).update(bound).digest("base64url");
  }
  writeCursor(at, org, def, v) {
    const place = Buffer.from(JSON.stringify(at)).toString("base64url");
    return `${place}.${this.sign(place, org, def, v)}`;
  }
  readCursor(cursor, org, def, v) {
    const [place, signature] = cursor.split(".");
    if (cursor !== `${place}.${signature}` || signature !== this.sign(place, org, def, v)) return undefined;
    return JSON.parse(Buffer.from(place, "base64url").toString());
  }
  /** Forgets tombstones and departures from before the horizon, and old results. Ids and numbers are kept for ever. */
  purge() {
    const now = this.clock();
    const horizon = Math.max(this.db.meta("horizon"), now - this.retentionMs);
    const [gone, trees] = [[], new Map()];
    const isOld = ({ at, deleted, maxLife }) => at < horizon && (deleted || maxLife * 60_000 + this.retentionMs <= now);
    for (const [table, rows] of this.db.tables) {
      const [kind, org, name] = table.split(" ");
      for (const [key, row] of rows) {
        if (kind === "documents" && (isOld(row) || this.isBelow(org, name, key, row, horizon))) {
          gone.push([table, key, null], ...row.links.map((link) => [`members ${org} ${name}/${link}`, key, null]));
          this.purgeFrom(trees, org, name, key, row);
        }
        if (kind === "members" && row.state === "left" && row.at < horizon) gone.push([table, key, null]);
        if (kind === "operations" && row.result && row.at + this.resultsMs <= now) gone.push([table, key, { v: row.v, refused: row.refused }]);
      }
    }
    for (const [table, rows] of this.db.tables) {
      const [kind, org] = table.split(" ");
      for (const [tree, row] of kind === "trees" ? rows : []) {
        const [name, pk] = tree.split(" ");
        const parent = this.db.table(`documents ${org} ${name}`).get(pk);
        if (row.n === 0 && row.floor < horizon && (!parent || isOld(parent))) trees.set(`${table}\n${tree}`, [table, tree, null]);
      }
    }
    this.db.commit(gone.length ? [...gone, ...trees.values(), ["meta", "horizon", horizon]] : []);
  }
  /** Whether a stored document is an item below its floor that no session needs. The floor alone tells of a number. */
  isBelow(org, name, pk, { v, links }, horizon) {
    const cls = this.classes.get(name);
    const { floor } = cls?.parent ? this.tree(org, treeOf(cls, pk, links)) : NO_TREE;
    return v < floor && (cls.isNumbered || floor < horizon);
  }
  /** Notes in its tree that a document is forgotten. Numbers are no times, so their trees have horizons of their own. */
  purgeFrom(trees, org, name, pk, { v, deleted, links }) {
    const cls = this.classes.get(name);
    if (!cls?.parent && !cls?.isNumbered) return;
    const [table, tree] = [`trees ${org}`, treeOf(cls, pk, links)];
    const row = trees.get(`${table}\n${tree}`)?.[2] ?? this.tree(org, tree);
    if (v < row.floor) return;
    const items = row.items - (cls.parent && !deleted ? 1 : 0);
    const horizon = cls.isNumbered ? Math.max(row.horizon, v + 1) : row.horizon;
    trees.set(`${table}\n${tree}`, [table, tree, { ...row, items, horizon }]);
  }
}

function resultOf(id, { result, refused }) {
  if (result) return result;
  const fault = refused ? new Fault("internal", "B", "the reason of its refusal is too old") : new Fault("forgotten", "N", "its result is too old");
  return { id, fault: fault.toMap() };
}

// ---- Requests ----

const isText = (value) => isString(value) && value !== "" && Buffer.byteLength(value) <= 1024;
const isCount = (holder, key) => Number.isSafeInteger(own(holder, key)) && holder[key] >= 0 && !floats.get(holder)?.has(key);
const isDef = (def) => isString(def) && DEF.test(def);

function checkRequest(message) {
  if (!isMap(message) || !isCount(message, "p")) throw malformed("p is no number");
  if (message.p !== 1) throw new Fault("wrong_protocol", "D", "this server speaks protocol 1", { status: 400 });
  const { session, epoch, ops = [], subs = [] } = message;
  const isEpoch = Array.isArray(epoch) && epoch.length === 2 && isCount(epoch, 0) && isString(epoch[1]) && Buffer.byteLength(epoch[1]) <= 1024;
  if (!isText(session) || (epoch !== undefined && !isEpoch)) throw malformed("session or epoch");
  if (!Array.isArray(ops) || !Array.isArray(subs)) throw malformed("ops and subs are lists");
  if (ops.length > 500 || subs.length > 1000) throw tooLarge("more than 500 operations, or than 1,000 subscriptions");
  for (const op of ops) {
    const isGood = isMap(op) && isText(own(op, "id")) && isText(own(op, "name")) && isCount(op, "seq") && op.seq > 0 && isCount(op, "at");
    if (!isGood || !Object.hasOwn(op, "args") || (Object.hasOwn(op, "after") && !isText(op.after))) throw malformed("an operation");
    if (depthOf(op.args) > 32) throw tooDeep();
  }
  for (const sub of subs) {
    const isGood = Array.isArray(sub) && isDef(sub[0]) && isCount(sub, 1) && sub.length <= 3 && (sub.length < 3 || isText(sub[2]));
    if (!isGood) throw malformed("a subscription is a def, a version, and perhaps a cursor");
  }
  return { session, epoch, ops, subs };
}

function decode(form, bytes) {
  try {
    return form.decode(bytes);
  } catch (error) {
    if (error instanceof Unreadable) throw error.isTooDeep ? tooDeep() : malformed(error.message);
    throw error;
  }
}

function readPath(url) {
  const [org, endpoint, ...more] = url.split("?")[0].split("/").slice(url.includes("/file/") ? -3 : -2);
  if ((endpoint === "file" && more.length) || endpoint === "files") throw new Fault("not_supported", "A", "there are no files", { status: 501 });
  if (endpoint !== "sync" && endpoint !== "live") throw new Fault("not_found", "N", "no such path", { status: 404 });
  let name = "";
  try {
    name = decodeURIComponent(org);
  } catch {
    // Then it is no name.
  }
  if (!ORG.test(name)) throw new Fault("unknown_org", "N", "no name of an org", { status: 404 });
  return { endpoint, org: name };
}

async function readBody(request) {
  if (request.headers["content-length"] > 4 * MIB) throw tooLarge("the body has more than 4 MiB");
  const chunks = [];
  let size = 0;
  for await (const chunk of request) if ((size += chunk.length) <= 4 * MIB) chunks.push(chunk);
  if (size > 4 * MIB) throw tooLarge("the body has more than 4 MiB");
  return new Uint8Array(Buffer.concat(chunks));
}

/** This server lets pages of any origin call. Without the exposed header they cannot read Retry-After. */
const headersFor = ({ headers: { origin = "*" } }) => ({
  "Cache-Control": "no-store",
  "Access-Control-Allow-Origin": origin,
  "Access-Control-Expose-Headers": "Retry-After",
  Vary: "Origin",
});

function preflight(request, response) {
  const isPrivate = request.headers["access-control-request-private-network"];
  response.writeHead(204, {
    ...headersFor(request),
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
    ...(isPrivate && { "Access-Control-Allow-Private-Network": "true" }),
  });
  response.end();
}

export async function handle(server, request, response) {
  if (request.method === "OPTIONS") return preflight(request, response);
  const type = (request.headers["content-type"] ?? "").split(";")[0].trim().toLowerCase();
  const form = own(FORMS, type);
  let status = 200;
  let reply;
  try {
    const { endpoint, org } = readPath(request.url);
    if (endpoint === "live") throw malformed("a socket is opened by an upgrade");
    if (request.method !== "POST") throw new Fault("not_found", "N", "the method is POST", { status: 405 });
    const caller = server.admit(/^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1], org);
    if (!form) throw malformed("the Content-Type is neither msgpack nor JSON");
    const body = await readBody(request);
    reply = server.sync(org, caller, checkRequest(decode(form, body)));
  } catch (error) {
    const fault = error instanceof Fault ? error : new Fault("server_error", "X", "the server failed", { status: 500 });
    if (fault !== error) console.error(error);
    status = fault.status ?? 500;
    reply = fault.toMap();
  }
  const headers = { ...headersFor(request), "Content-Type": form ? type : "application/json", ...(status === 401 && { "WWW-Authenticate": "Bearer" }) };
  response.writeHead(status, headers).end((form ?? FORMS["application/json"]).encode(reply));
}

// ---- Socket ----

const socketServer = new WebSocketServer({ noServer: true, maxPayload: MIB });

export function upgrade(server, request, stream, head) {
  try {
    const { endpoint, org } = readPath(request.url);
    if (endpoint !== "live") throw new Fault("not_found", "N", "a socket is at live", { status: 404 });
    socketServer.handleUpgrade(request, stream, head, (socket) => listen(server, org, socket));
  } catch (fault) {
    const body = encodeJson(fault.toMap?.() ?? {});
    const headers = { ...headersFor(request), "Content-Type": "application/json", "Content-Length": body.length, Connection: "close" };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    stream.end(Buffer.concat([Buffer.from(`HTTP/1.1 ${fault.status ?? 500} Refused\r\n${lines.join("")}\r\n`), body]));
  }
}

function listen(server, org, socket) {
  let [defs, form, token, pulse] = [new Set(), undefined, undefined, undefined];
  const send = (message) => socket.send(form.encode(message), { binary: form !== FORMS["application/json"] });
  const close = (error) => {
    const code = error.kind === "S" ? 4401 : error instanceof Fault ? 1008 : 1011;
    socket.close(code, error.code ?? "server_error");
  };
  const greeting = setTimeout(() => socket.close(1008, "timeout"), 10_000);
  /** A token may be withdrawn: it is checked before each hint, and every two seconds. */
  const whileAdmitted = (act) => {
    try {
      server.admit(token, org);
      act();
    } catch (error) {
      close(error);
    }
  };
  const hear = (changed, versions) => {
    const hints = changed === org ? [...versions].filter(([def]) => defs.has(def)) : [];
    if (hints.length) whileAdmitted(() => send({ hints }));
  };
  server.listeners.add(hear);
  socket.on("message", (bytes, isBinary) => {
    try {
      form = FORMS[isBinary ? "application/msgpack" : "application/json"];
      const message = decode(form, new Uint8Array(bytes));
      if (!isMap(message)) throw malformed("a message is a map");
      const { subs, session, token: given = token } = message;
      server.admit((token = given), org);
      if (!isText(session) || !Array.isArray(subs) || !subs.every(isDef)) throw malformed("session or subs");
      if (subs.length > 1000) throw new Fault("too_large", "A", "more than 1,000 subscriptions");
      clearTimeout(greeting);
      const live = subs.filter((def) => server.find(def));
      const refused = subs.filter((def) => !live.includes(def)).map((def) => [def, unknownDef().toMap()]);
      defs = new Set(live);
      send({ live, ...(refused.length && { refused }), ...server.head() });
      let beat = 0;
      pulse ??= setInterval(() => whileAdmitted(() => (beat += 1) % 4 === 0 && send({})), 2000);
    } catch (error) {
      close(error);
    }
  });
  socket.on("error", () => socket.terminate());
  socket.on("close", () => {
    clearTimeout(greeting);
    clearInterval(pulse);
    server.listeners.delete(hear);
  });
}

/** Closes all sockets that were opened here: the server stops. */
export const closeSockets = () => socketServer.clients.forEach((socket) => socket.close(1012, "stopping"));

// ---- Start ----

export async function main(args) {
  const text = (name) => [name, { type: "string" }];
  const names = ["schema", "port", "data", "tokens", "retention-ms", "results-ms", "page-bytes", "clock-offset-ms"];
  const { values } = parseArgs({ args, options: Object.fromEntries([...names.map(text), ["renew-epoch", { type: "boolean" }]]) });
  const number = (name, otherwise) => (values[name] === undefined ? otherwise : Number(values[name]));
  const offset = number("clock-offset-ms", 0);
  const server = new Server({
    schema: JSON.parse(readFileSync(values.schema, "utf8")),
    file: values.data,
    tokens: values.tokens,
    clock: () => Date.now() + offset,
    retentionMs: number("retention-ms"),
    resultsMs: number("results-ms"),
    pageBytes: number("page-bytes"),
  });
  if (values["renew-epoch"]) server.db.renewEpoch(server.clock());
  setInterval(() => server.purge(), 60_000).unref();
  const http = createServer((request, response) => void handle(server, request, response).catch(() => response.destroy()));
  http.on("upgrade", (request, stream, head) => upgrade(server, request, stream.on("error", () => stream.destroy()), head));
  http.listen(number("port", 7700), "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${http.address().port}`));
  process.on("SIGTERM", () => {
    closeSockets();
    http.close(() => process.exit(0));
    http.closeIdleConnections();
  });
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv.slice(2));
