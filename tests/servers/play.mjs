// One random history: real sessions, each with its own base path, and the second server, over real HTTP and sockets. If
// Node has no WebSocket, it runs under `--experimental-websocket`. A seed repeats the choices, not the timing.
//
// Invariants at the end: each session shows the server's documents, no accepted write is lost, and under `merge` no write
// erases a property that somebody else wrote (R92).
import assert from "node:assert/strict";
import "fake-indexeddb/auto";

import { defineSchema, EscaleError, open } from "../../pkg/index.js";
import { shaS } from "../../handler/src/index.mjs";
import { randomFrom } from "../e2e/support/in-page/random.js";
import { start } from "./second.mjs";

/** As in browsers, a socket that could not be opened ends with `close`. Node 20 leaves it at `error`. */
globalThis.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    let isOver = false;
    this.addEventListener("close", () => (isOver = true));
    this.addEventListener("error", () => {
      queueMicrotask(() => isOver || this.dispatchEvent(Object.assign(new Event("close"), { code: 1006, reason: "", wasClean: false })));
    });
  }
};

const CLASSES = {
  Note: {
    key: ["id"],
    collections: { box: { key: ["box"], mutable: true }, tags: { key: ["tags"], list: true, mutable: true }, kind: { key: ["kind"] } },
    indexes: { n: "integer" },
  },
  Page: { key: ["book", "number"] },
  Line: { in: "Page", key: ["book", "page", "number"] },
  Account: { key: ["id"], clock: "sequence" },
  Entry: { in: "Account", key: ["account", "number"] },
  // Each session writes one property of it, and the server another one. So each property has the last value of its writer.
  Form: { key: ["id"] },
};
const FORMS = ["f", "g"];
const RETENTION_MS = 600_000;
const DEADLINE_MS = Number(process.env.DEADLINE_MS || 90_000);
const BOXES = ["in", "out", "new"];
const TAGS = ["red", "blue"];
const MATCHES = [
  ["Note", {}],
  ["Page", {}],
  ...BOXES.map((box) => ["Note", { box }]),
  ...TAGS.map((tags) => ["Note", { tags }]),
  ["Note", { kind: "a" }],
  ["Note", { key: ["1"] }],
  ["Note", { key: ["2"] }],
  ["Page", { key: ["x", "1"] }],
  // No single item: the end of its parent is not hinted, and a session learns of it minutes later.
  ["Line", { book: "x", page: "1" }],
  ["Account", { key: ["a"] }],
  ["Entry", { account: "a" }],
  ["Form", {}],
];
/** Items end with their parents, and numbers are no times: of these classes, only the end is compared. */
const TRACKED = ["Note", "Page"];

const keyOf = (className, data) => CLASSES[className].key.map((property) => data[property]);
const nameOf = (className, key) => `${className}@${shaS(key.join("/"))}`;

/** The def of a match, as the server's dump names it. */
function defOf(className, match) {
  const [name] = Object.keys(match);
  if (name === undefined) return className;
  if (CLASSES[className].in && name !== "key") return `${className}/in@${shaS(Object.values(match).join("/"))}`;
  return name === "key" ? nameOf(className, match.key) : `${className}/${name}@${shaS(match[name])}`;
}

/** A document without the properties that the server adds, with its own in order. */
function plain(data) {
  const own = Object.entries(data).filter(([name]) => name !== "release");
  return Object.fromEntries(own.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Resolves once the condition holds. It is checked at each event of the session, and fails at the deadline. */
async function until(subscribe, holds, says) {
  let stop = () => {};
  let deadline;
  try {
    await new Promise((resolve, reject) => {
      deadline = setTimeout(() => reject(new Error(says())), DEADLINE_MS);
      stop = subscribe((value) => holds(value) && resolve());
    });
  } finally {
    clearTimeout(deadline);
    stop();
  }
}

/** The promise's value, or an error that names the condition awaited in vain. */
async function within(promise, says) {
  let deadline;
  const late = new Promise((_, reject) => (deadline = setTimeout(() => reject(new Error(`waited in vain: ${says}`)), DEADLINE_MS)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(deadline);
  }
}

class History {
  constructor(seed) {
    this.below = randomFrom(seed);
    this.seed = seed;
    this.offset = 0;
    this.log = [];
    this.lost = 0; // the highest version that the last restore may have undone
    this.writes = new Map(); // of each document, the result of the accepted write with the highest version
    this.storm = 0;
    this.forms = new Map(); // of each property of a form, the version and the value of its writer's last accepted write
    this.formWrites = 0;
    this.writesOf = new Map(); // of each operation, its writes
    this.counts = { accepted: 0, refused: 0, failed: 0, restored: 0, merged: 0 };
    this.waiting = new Set();
    this.settledIds = new Set();
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  clock = () => Date.now() + this.offset;
  trouble = ({ url }) => {
    const session = this.sessions[Number(url.split("/")[1])];
    if (session.isCut) return "lost request";
    if (this.below(100) < this.storm) return this.pick(["lost request", "lost reply", "unavailable"]);
    return undefined;
  };

  async begin() {
    const options = { schema: CLASSES, clock: this.clock, retentionMs: RETENTION_MS, pageBytes: 200 + this.below(2000), trouble: this.trouble };
    this.sessions = [];
    this.server = await start(options);
    const count = 2 + this.below(2);
    for (let i = 0; i < count; i++) {
      const isSynced = this.below(2) === 0;
      const session = await open({
        org: `org${this.seed}`,
        schema: defineSchema(CLASSES),
        server: `${this.server.url}/${i}`,
        mode: isSynced ? "synced" : "incognito",
        account: `account${i}`,
        ...(isSynced && { key: new Uint8Array(32).fill(i + 1) }),
        format: this.pick(["msgpack", "json"]),
        pollEveryMs: 1000,
        conflicts: { Form: "merge" },
      });
      const entry = { i, session, isSynced, isCut: false, subs: new Map(), last: undefined };
      session.refused.subscribe((refused) => refused.forEach((one) => this.settle(entry, one)));
      this.sessions.push(entry);
      this.log.push(`${i} is ${isSynced ? "synced" : "incognito"}`);
    }
  }
  settle(session, one) {
    if (this.settledIds.has(one.id)) return;
    this.settledIds.add(one.id);
    this.counts.refused += 1;
    // A patch of a document that is gone can only be dropped.
    const canAmend = one.name !== "batch" && (one.name === "doc.patch" ? one.theirs?.doc : one.theirs);
    if (!canAmend || this.below(2) > 0) return one.discard();
    this.follow(session, one.amend({ ...one.args, ifVersion: one.theirs.v }), this.writesOf.get(one.id) ?? []);
  }

  document(className) {
    const text = `${this.below(1000)}`;
    if (className === "Page") return { book: this.pick(["x", "x", "y"]), number: this.pick(["1", "1", "2", "3"]), text };
    if (className === "Line") return { book: "x", page: this.pick(["1", "1", "2"]), number: `${this.below(4)}`, text };
    if (className === "Account") return { id: this.pick(["a", "a", "b"]), text };
    if (className === "Entry") return { account: this.pick(["a", "a", "b"]), number: `${this.below(4)}`, text };
    const data = { id: `${this.below(8)}`, n: this.below(100), text: "x".repeat(this.below(40)) };
    if (this.below(4)) data.box = this.pick(BOXES);
    if (this.below(3)) data.tags = TAGS.filter(() => this.below(2) === 0);
    if (this.below(2)) data.kind = data.id % 2 ? "a" : "b";
    if (this.below(8) === 0) data.maxLife = Math.floor(this.clock() / 60_000) + 1 + this.below(3);
    return data;
  }
  /** One write: its kind, and its arguments. */
  write() {
    const className = this.pick(["Note", "Note", "Note", "Note", "Page", "Page", "Page", "Line", "Line", "Account", "Account", "Entry"]);
    const data = this.document(className);
    const kind = this.pick(["put", "put", "patch", "delete"]);
    const key = keyOf(className, data);
    if (kind !== "patch") return { kind, className, key, data };
    const changes = className !== "Note" ? { text: data.text } : this.pick([{ n: data.n }, { box: this.pick(BOXES) }, { tags: data.tags, n: data.n }]);
    return { kind, className, key, data, changes: Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) };
  }
  issue(target, { kind, className, key, data, changes }, options) {
    if (kind === "put") return target.put(className, data, options);
    if (kind === "delete") return target.delete(className, key, options);
    return target.patch(className, key, changes, options);
  }
  /** The server accepted these writes at a version. */
  accepted(writes, v) {
    this.counts.accepted += 1;
    for (const write of writes.filter((one) => TRACKED.includes(one.className))) {
      const name = nameOf(write.className, write.key);
      if (!(v < this.writes.get(name)?.v)) this.writes.set(name, { v, write });
    }
  }
  /** Tracks an operation. The amendment of a refused write counts as the same write. */
  follow(session, operation, writes) {
    session.last = operation;
    this.writesOf.set(operation.id, writes);
    const end = operation.accepted.then(
      ({ v }) => this.accepted(writes, v),
      (error) => {
        this.counts.failed += 1;
        assert.ok(error.code, `an operation failed without a code: ${error.stack}`);
      },
    );
    this.waiting.add(end);
    end.then(() => this.waiting.delete(end), (error) => (this.broken = error));
  }

  /** A writer's property of a form was accepted. Its values only grow. */
  filled(id, property, v, value) {
    const name = `${id} ${property}`;
    if (!(value < this.forms.get(name)?.value)) this.forms.set(name, { v, value });
    this.counts.merged += 1;
  }

  actions = {
    write(session) {
      const write = this.write();
      const options = {};
      if (this.below(6) === 0 && session.last) options.ifVersion = session.last;
      else if (this.below(6) === 0) options.ifVersion = 0;
      if (this.below(10) === 0 && session.last) options.after = session.last;
      this.follow(session, this.issue(session.session, write, options), [write]);
      return `${write.kind} ${write.className} ${write.key} ${options.ifVersion === 0 ? "ifVersion 0" : options.ifVersion ? "ifVersion last" : ""}`;
    },
    batch(session) {
      const writes = Array.from({ length: 1 + this.below(4) }, () => this.write());
      this.follow(session, session.session.batch((tx) => writes.forEach((write) => this.issue(tx, write))), writes);
      return writes.map(({ kind, className, key }) => `${kind} ${className} ${key}`).join(", ");
    },
    /** A form is saved as it is shown with one change, twice in a row, or one property of it is set. */
    async form(session) {
      const id = this.pick(FORMS);
      const forms = session.session.collection("Form", {}, { keep: "forever" });
      const property = `of${session.i}`;
      for (let n = 0; n < 2; n++) {
        const shown = forms.docs.find((doc) => doc.id === id);
        // Without the server's state, nothing can be saved whole.
        if (!shown && !forms.ready) return "not loaded";
        const value = (this.formWrites += 1);
        const isWhole = !shown || this.below(3) > 0;
        const operation = isWhole
          ? session.session.put("Form", { ...shown, id, [property]: value })
          : session.session.patch("Form", [id], { [property]: value });
        this.follow(session, operation, []);
        operation.accepted.then(({ v }) => this.filled(id, property, v, value), () => {});
      }
      return `${id} ${property} ${this.formWrites}`;
    },
    credit(session) {
      this.follow(session, session.session.run("credit", {}), []);
    },
    subscribe(session) {
      const [className, match] = this.pick(MATCHES);
      const def = defOf(className, match);
      if (!session.subs.has(def)) session.subs.set(def, { className, match, collection: session.session.collection(className, match, { keep: "forever" }) });
      return def;
    },
    unsubscribe(session) {
      if (session.subs.size === 0) return "nothing";
      const def = this.pick([...session.subs.keys()]);
      const { className, match } = session.subs.get(def);
      session.subs.delete(def);
      session.session.unsubscribe(className, match);
      return def;
    },
    async mode(session) {
      if (!session.isSynced) return "none";
      session.isAway = !session.isAway;
      await session.session.setMode(session.isAway ? "avion" : "synced");
      return session.isAway ? "avion" : "synced";
    },
    cut(session) {
      session.isCut = !session.isCut;
      if (session.isCut) this.server.closeSockets(`/${session.i}/`);
      return `${session.isCut}`;
    },
    async saved(session) {
      await session.last?.saved;
    },
    async whole(session) {
      if (session.isCut || session.isAway) return "away";
      await until((check) => session.session.status.subscribe(check), ({ pending }) => pending === 0, () => this.tell(session, "writes wait"));
      await Promise.all([...session.subs.values()].map(({ collection }) => collection.whenReady()));
      return "pending 0 and loaded";
    },
    ownForm() {
      const id = this.pick(FORMS);
      const value = (this.formWrites += 1);
      const data = this.server.dump(`org${this.seed}`).find((row) => row.class === "Form" && row.data.id === id)?.data;
      const v = this.server.write(`org${this.seed}`, "doc.put", { class: "Form", data: { ...plain(data ?? { id }), own: value } });
      this.filled(id, "own", v, value);
      return `${id} own ${value} at ${v}`;
    },
    own() {
      const write = this.write();
      const { kind, className, key, data, changes } = write;
      const args = kind === "put" ? { class: className, data } : { class: className, key, ...(kind === "patch" && { set: changes }) };
      try {
        const v = this.server.write(`org${this.seed}`, `doc.${kind}`, args);
        this.accepted([write], v);
        return `${kind} ${className} ${key} at ${v}`;
      } catch (fault) {
        return `${kind} ${className} ${key} refused: ${fault.code ?? fault.stack}`;
      }
    },
    lives() {
      this.offset += 60_000 * (1 + this.below(3));
    },
    purge() {
      if (this.below(2)) this.offset += RETENTION_MS + 10_000;
      this.server.purge();
    },
    async restart() {
      await this.server.restart();
    },
    backup() {
      this.server.backup();
    },
    async restore() {
      // If writes follow each other within a millisecond, the server's versions are ahead of the clock.
      this.lost = Math.max(this.lost, this.clock(), this.server.highest());
      await this.server.restore();
      this.counts.restored += 1;
    },
    sockets() {
      this.server.closeSockets();
    },
    storm() {
      this.storm = this.storm ? 0 : 20 + this.below(30);
      return `${this.storm} of 100`;
    },
  };
  WEIGHTS = { write: 24, batch: 6, credit: 2, subscribe: 12, unsubscribe: 5, mode: 4, cut: 5, saved: 4, whole: 12, own: 16, form: 14, ownForm: 5, lives: 3, purge: 4, restart: 2, backup: 3, restore: 1, sockets: 4, storm: 4 };

  async play(steps) {
    await this.begin();
    const names = Object.entries(this.WEIGHTS).flatMap(([name, weight]) => Array(weight).fill(name));
    for (const session of this.sessions) for (let i = 0; i < 2; i++) this.log.push(`${session.i} ${this.actions.subscribe.call(this, session)}`);
    for (let step = 0; step < steps; step++) {
      const name = this.pick(names);
      const session = this.pick(this.sessions);
      const line = `${step} session ${session.i} ${name}`;
      this.log.push(line);
      this.log[this.log.length - 1] = `${line}: ${(await this.act(name, session)) ?? ""}`;
    }
    await this.heal();
  }

  /**
   * Carries out one action. A write that the session itself refuses at once, such as a patch of a deleted document,
   * does not count.
   */
  async act(name, session) {
    try {
      return await within(this.actions[name].call(this, session), this.tell(session, name));
    } catch (error) {
      if (!["write", "batch"].includes(name) || !(error instanceof EscaleError)) throw error;
      return `refused at once: ${error.code}`;
    }
  }

  /** The network works again, and each session is informed: then all must be equal. */
  async heal() {
    this.storm = 0;
    for (const session of this.sessions) {
      session.isCut = false;
      if (session.isAway) await session.session.setMode("synced");
      session.isAway = false;
      // A session without subscriptions has nothing to pull, and opens no socket.
      if (session.subs.size === 0) this.actions.subscribe.call(this, session);
    }
    this.server.closeSockets();
    for (const session of this.sessions) await this.settled(session);
    await within(Promise.all(this.waiting), `${this.waiting.size} operations have no end`);
    // The waiting writes are executed. Hints bring their effects to the other sessions, which are compared once more.
    for (const session of this.sessions) await this.settled(session);
    if (this.broken) throw this.broken;
    this.nothingIsLost();
    this.nothingIsErased();
    for (const { session } of this.sessions) {
      const { error, faults, storage } = session.status.value;
      assert.equal(error, null, `an error at the end: ${error?.code} ${error?.message}`);
      assert.deepEqual(faults, {});
      assert.ok(storage === "ok" || storage === "none", storage);
      assert.deepEqual(session.pending(), []);
      assert.deepEqual(session.refused.value, []);
    }
  }
  /** Waits until the session has nothing to send, is live, and shows the server's documents for each subscription. */
  async settled(session) {
    const status = (check) => session.session.status.subscribe(check);
    const isWell = ({ pending, phase, updates, error }) => pending === 0 && phase === "live" && updates === "pushed" && error === null;
    await until(status, isWell, () => this.tell(session, "it is not live"));
    for (const [def, { collection }] of session.subs) {
      const isEqual = () => this.difference(session, def) === undefined;
      // The collection shows an amended write before the server has it, and does not change once it is accepted.
      const changes = (check) => {
        const stops = [collection.subscribe(check), status(check)];
        return () => stops.forEach((stop) => stop());
      };
      await until(changes, isEqual, () => this.tell(session, `${def} differs: ${this.difference(session, def)}`));
    }
    if (session.isSynced) await within(session.session.flush(), this.tell(session, "flush"));
  }
  difference(session, def) {
    const { className, collection } = session.subs.get(def);
    const list = (docs) => JSON.stringify(docs.sort((a, b) => (a.name < b.name ? -1 : 1)));
    const rows = this.server.dump(`org${this.seed}`).filter(({ defs }) => defs.includes(def));
    const theirs = list(rows.map(({ pk, v, data }) => ({ name: `${className}@${pk}`, v, data: plain(data) })));
    const mine = list(
      collection.docs.map((doc) => ({ name: nameOf(className, keyOf(className, doc)), v: session.session.meta(doc)?.v, data: plain(doc) })),
    );
    return mine === theirs ? undefined : `\n  session ${mine}\n  server  ${theirs}`;
  }
  /** Each property of a form has the last value of its one writer, unless the server was restored since. */
  nothingIsErased() {
    const held = new Map(this.server.dump(`org${this.seed}`).filter((row) => row.class === "Form").map(({ data }) => [data.id, data]));
    for (const [name, { v, value }] of this.forms) {
      const [id, property] = name.split(" ");
      if (v > this.lost) assert.equal(held.get(id)?.[property], value, `${name} was written at ${v}`);
    }
  }
  /** The server holds the result of the accepted write with the highest version, unless it was restored since. */
  nothingIsLost() {
    const held = new Map(this.server.dump(`org${this.seed}`).map(({ class: className, pk, data }) => [`${className}@${pk}`, data]));
    for (const [name, { v, write }] of this.writes) {
      if (v <= this.lost) continue;
      const data = held.get(name);
      const end = write.kind === "put" ? (write.data.maxLife ?? Infinity) : 0;
      const isEnded = !data && end * 60_000 <= this.clock();
      if (write.kind === "delete") assert.equal(data, undefined, `${name} was deleted at ${v}`);
      else if (!isEnded) {
        const wanted = write.kind === "put" ? plain(write.data) : write.changes;
        const found = write.kind === "put" ? plain(data ?? {}) : Object.fromEntries(Object.keys(wanted).map((one) => [one, data?.[one]]));
        assert.deepEqual(found, wanted, `${name} was written at ${v}`);
      }
    }
  }
  tell(session, what) {
    const { phase, pending, updates, error, mode } = session.session.status.value;
    return `session ${session.i}: ${what} (${JSON.stringify({ phase, pending, updates, mode, error: error?.code })})`;
  }
  async end() {
    const closed = (this.sessions ?? []).map(({ session }) => session.close());
    await within(Promise.allSettled(closed), "the sessions close");
    await within(this.server?.stop(), "the server stops");
  }
}

/** Plays a seed. Returns its counts, or fails with the log of its actions. */
export async function play(seed, { steps = 60 } = {}) {
  const history = new History(seed);
  try {
    await history.play(steps);
    return history.counts;
  } catch (error) {
    throw new Error(`ESCALE_SEED=${seed}: ${error.message}\n${history.log.join("\n")}`, { cause: error });
  } finally {
    await history.end();
  }
}
