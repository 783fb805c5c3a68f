// A core without wasm: it keeps the contract of js/src/wasm/core.ts, and lets a test decide when a read ends.
import { openWith } from "../../js/dist/session/open.js";

const OPENING = {
  mode: "synced",
  phase: "live",
  updates: "pushed",
  pending: 0,
  drafts: 0,
  progress: null,
  storage: "ok",
  damaged: { documents: 0, collections: 0, operations: 0 },
  error: null,
  faults: {},
};

export class FakeCore {
  calls = [];
  /** The leases, by def. */
  rests = new Map();
  /** Set by a test to delay reads: each then waits for `release()`. */
  isHolding = false;
  #held = [];
  /** Unfinished operations, by id. */
  #operations = new Map();
  #nextId = 1;
  #defs = new Map();
  #rows = new Map();
  #status = OPENING;

  constructor(options, host) {
    this.options = options;
    this.host = host;
    this.#status = { ...OPENING, mode: options.mode };
    host.status(JSON.stringify(this.#status));
  }

  /** Puts documents into a def as one change: a document with the same key gets another id. */
  put(def, ...documents) {
    const gone = [];
    const members = this.#members(def);
    for (const data of documents) {
      const key = JSON.stringify([data.name]);
      const old = members.byKey.get(key);
      if (old) {
        gone.push(old);
        this.#rows.delete(old);
      }
      const id = this.#nextId++;
      members.byKey.set(key, id);
      this.#rows.set(id, { v: 1_000 + id, data });
    }
    this.host.changed([def], Uint32Array.from(gone));
  }

  remove(def, name) {
    const members = this.#members(def);
    const key = JSON.stringify([name]);
    const id = members.byKey.get(key);
    members.byKey.delete(key);
    this.#rows.delete(id);
    this.host.changed([def], Uint32Array.of(id));
  }

  /** Whether a def holds the document of that name. */
  has(def, name) {
    return this.#defs.get(def)?.byKey.has(JSON.stringify([name])) === true;
  }

  becomeReady(def) {
    this.#members(def).ready = true;
    this.host.changed([def], new Uint32Array());
  }

  /** The defs of a tree come from different snapshots, or from one again. */
  tear(isTorn, ...defs) {
    for (const def of defs) this.#members(def).torn = isTorn;
    this.host.changed(defs, new Uint32Array());
  }

  tell(change) {
    this.#status = { ...this.#status, ...change };
    this.host.status(JSON.stringify(this.#status));
  }

  release() {
    this.isHolding = false;
    for (const resolve of this.#held.splice(0)) resolve();
  }

  called(name) {
    return this.calls.filter(([called]) => called === name).length;
  }

  def(className, match) {
    return match === "{}" ? className : `${className}/${match}`;
  }
  subscribe(def, lease) {
    this.calls.push(["subscribe", def]);
    this.#members(def);
    this.rests.set(def, lease);
  }
  unsubscribe(def) {
    this.calls.push(["unsubscribe", def]);
    const ids = [...(this.#defs.get(def)?.byKey.values() ?? [])];
    this.#defs.delete(def);
    this.rests.delete(def);
    this.host.changed([def], Uint32Array.from(ids));
  }
  subscriptions() {
    return [...this.#defs.keys()];
  }
  list(def) {
    this.calls.push(["list", def], ["list whole", def]);
    return this.#listing(def);
  }
  #listing(def) {
    if (!this.#defs.has(def)) return { ids: this.#foundElsewhere(def), ready: false, whole: false, v: 0, lease: 0 };
    const { byKey, ready, torn } = this.#subscribed(def);
    const whole = ready && !torn;
    const ids = ready || byKey.size > 0 ? Uint32Array.from(byKey.values()).reverse() : this.#foundElsewhere(def);
    return { ids, ready, whole, v: ready ? 1 : 0, lease: this.rests.get(def) ?? 0 };
  }
  /** The document that a def names, if another def holds it. */
  #foundElsewhere(def) {
    const [className] = def.split("/", 1);
    const { key } = JSON.parse(def.slice(className.length + 1) || "{}");
    const id = key && this.find(className, key.join("/"), key.length);
    return Uint32Array.from(id ? [id] : []);
  }
  changes(def, all) {
    const held = this.#subscribed(def);
    const { given } = held;
    this.calls.push(["list", def]);
    const listing = this.#listing(def);
    const now = new Set(listing.ids);
    held.given = now;
    if (all || !given) return listing;
    // The others were reported as gone.
    const left = [...given].filter((id) => !now.has(id) && this.#rows.has(id));
    return { ...listing, ids: listing.ids.filter((id) => !given.has(id)), left: Uint32Array.from(left) };
  }
  async read(ids) {
    this.calls.push(["read", ids.length]);
    const rows = [...ids].map((id) => [id, this.#rows.get(id)]).filter(([, row]) => row);
    if (this.isHolding) await new Promise((resolve) => this.#held.push(resolve));
    if (this.readError) throw this.readError;
    return JSON.stringify(rows.map(([id, { data }]) => rowOf(id, data)));
  }
  find(className, key, parts) {
    const text = JSON.stringify(parts === 1 ? [key] : key.split("/"));
    const ofClass = [...this.#defs].filter(([def]) => def.split("/", 1)[0] === className);
    return ofClass.map(([, { byKey }]) => byKey.get(text)).find((id) => id !== undefined) ?? 0;
  }
  /** Knows no index: it gives the last documents first, as many as the limit says. */
  async query(className, query) {
    this.calls.push(["query", query]);
    if (this.queryError) throw this.queryError;
    const ids = [...(this.#defs.get(className)?.byKey.values() ?? [])].reverse();
    const limit = JSON.parse(query)[3];
    return Uint32Array.from(ids.slice(0, limit ?? undefined));
  }
  watch(className, query) {
    if (this.queryError) throw this.queryError;
    this.calls.push([query ? "watch" : "unwatch", className]);
  }
  meta(id) {
    const row = this.#rows.get(id);
    return row && { v: row.v, pending: false, deleted: false };
  }
  write(name, args, options) {
    if (this.writeError) throw this.writeError;
    const id = this.#issue(name, JSON.parse(args), JSON.parse(options));
    this.calls.push(["write", name, JSON.parse(args), JSON.parse(options)]);
    if (this.isQuick) this.save(id);
    return id;
  }
  amend(id, args) {
    const old = this.#operations.get(id);
    if (old?.state !== "refused") throw { code: "not_found", kind: "N", retryable: false, message: "none", cure: "" };
    this.#operations.delete(id);
    this.calls.push(["amend", id, args && JSON.parse(args)]);
    return this.#issue(old.name, args === undefined ? old.args : JSON.parse(args), {});
  }
  discard(id) {
    this.calls.push(["discard", id]);
    this.#operations.delete(id);
  }
  operations() {
    this.calls.push(["operations"]);
    return JSON.stringify([...this.#operations.values()]);
  }
  lostByServer() {
    return ["lost"];
  }
  async history(className, key) {
    this.calls.push(["history", className, key]);
    return JSON.stringify(this.past ?? []);
  }
  async sweep(options) {
    this.calls.push(["sweep", JSON.parse(options)]);
    return '{"removed":2,"rowids":[1,2]}';
  }

  /** The operation was saved. */
  save(id, where = "device") {
    const operation = this.#operations.get(id);
    if (operation.state === "unsaved") operation.state = "saved";
    this.#news({ kind: "saved", id, where });
  }
  accept(id, v = 1, value = undefined) {
    this.#operations.delete(id);
    this.#news({ kind: "accepted", id, v, value });
  }
  refuse(id, error = fault("forbidden"), theirs = undefined) {
    Object.assign(this.#operations.get(id), { state: "refused", error, theirs });
    this.#news({ kind: "refused", id, error });
  }
  giveUp(id, error = fault("version_conflict")) {
    this.#operations.delete(id);
    this.#news({ kind: "failed", id, error });
  }
  /** A conflict is resolved: returns the operation that replaces this one. */
  replace(id) {
    const { name, args } = this.#operations.get(id);
    this.#operations.delete(id);
    const by = this.#issue(name, args, {});
    this.#news({ kind: "amended", id, by });
    return by;
  }

  /** An operation of an earlier opening, as the journal has it. It was refused if an error is given. */
  resume(id, error) {
    this.#operations.set(id, { id, name: "doc.put", args: {}, at: 5, state: error ? "refused" : "saved", error });
  }

  #issue(name, args) {
    const id = `op${this.#nextId++}`;
    this.#operations.set(id, { id, name, args, at: 5, state: "unsaved" });
    return id;
  }
  #news(news) {
    this.host.operation(JSON.stringify(news));
  }

  async setMode(mode) {
    this.tell({ mode });
  }
  async changePassphrase(...passphrases) {
    this.calls.push(["changePassphrase", ...passphrases]);
  }
  async flush() {
    this.calls.push(["flush"]);
  }
  async end(word) {
    this.calls.push([word]);
  }
  async inspect(limit) {
    return { name: "escale1-x", records: [], counts: { documents: limit }, bytes: 0 };
  }
  memory() {
    const collections = [...this.#defs].map(([def, { byKey, ready }]) => ({ def, v: ready ? 1 : 0, size: byKey.size, ready }));
    return { documents: this.#rows.size, collections };
  }

  /** The members of a def that is subscribed to; none for all others. */
  #subscribed(def) {
    return this.#defs.get(def) ?? { byKey: new Map(), ready: false };
  }
  #members(def) {
    if (!this.#defs.has(def)) this.#defs.set(def, { byKey: new Map(), ready: false });
    return this.#defs.get(def);
  }
}

/** An error as the core reports it. */
export const fault = (code) => ({ code, kind: "A", retryable: false, message: "x", cure: "y" });

/** Opens a session on a fake core; `openCore` may replace the opening. */
export async function openFake(schema, options = {}, openCore = async (core) => core) {
  let core;
  const glue = {
    open(coreOptions, host) {
      core = new FakeCore(coreOptions, host);
      return openCore(core);
    },
  };
  const wasm = { take: async () => ({ glue, giveBack() {} }) };
  const given = { org: "demo", schema, server: "http://localhost:7700", passphrase: "secret", ...options };
  const session = await openWith(wasm, given);
  return { session, core };
}

/** Collects the arguments of a callback, and lets a test wait for its next call. */
export function recorder() {
  const seen = [];
  let wake;
  const callback = (...args) => {
    seen.push(args);
    wake?.();
  };
  /** Resolves once the callback was called `count` times in all. */
  const calls = async (count) => {
    while (seen.length < count) await new Promise((resolve) => (wake = resolve));
    return seen[count - 1];
  };
  return { callback, calls, seen };
}

/** A row as it crosses, always with its release as a separate element. */
export function rowOf(id, { release = 1, ...data }) {
  return [id, data, release];
}

/** Lets everything that is already due run: promises first, then one turn of the event loop. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));
