// Escale, as applications use it: its parts come through an adapter object as msgpack bytes, and all stored data is
// sealed.
import { encode } from "@msgpack/msgpack";
import { defineSchema, init, open } from "escale";
import { rehearsal } from "escale/rehearsal";

import { allLists, documentAt, groupOf, idOf, listed, listedBy } from "../page/data.js";

/** The numbers of the documents whose sections the runner lists. */
const LISTED = [3, 7];

const collection = listedBy === "lists" ? { key: ["lists"], list: true, mutable: true } : { key: [listedBy], mutable: true };
const indexes = listedBy === "group" ? { indexes: { n: "integer" } } : {};
const schema = defineSchema({ Doc: { key: ["id"], collections: { [listedBy]: collection }, ...indexes } });

/** Rows that a reply has at most, if it has several collections. */
const ROWS_MAX = 4_000;
const EPOCH = [1, "bench"];
const START = 1_700_000_000_000;

/** The pk of a document, as the protocol defines it. */
async function pkOf(id) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(id)));
  return btoa(String.fromCharCode(...digest.subarray(3, 19))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const rowOf = async (document, v) => ({ pk: await pkOf(document.id), v, data: encode({ ...document, release: 1 }) });

class System {
  #passphrase;
  #isCold;
  constructor(variant) {
    this.#isCold = variant?.endsWith("cold") ?? false;
    if (variant === "passphrase") this.#passphrase = "a passphrase of the benchmark";
  }
  #replies = [];
  #now = START;
  #hear = () => {};
  /** The memory of each instance of the wasm, while the instance exists. */
  #memories = [];
  #isOnline = true;
  #seq = 0;
  #count = 0;
  /** Documents that operations or pushes changed. */
  #written = new Map();
  /** The collections that the page shows, by their names. */
  #listed = [];
  /** For the def of each of these, the prepared reply that has it. */
  #lists = new Map();
  /** Rows of each collection, by its name. */
  #rows = new Map();
  /** The groups that the page shows later, by their defs. */
  #groups = new Map();

  /**
   * The work that an application may do ahead of its first session. The wasm's memories, one for each store, are
   * captured here.
   */
  async load() {
    const { instantiate } = WebAssembly;
    WebAssembly.instantiate = async (...args) => {
      const made = await instantiate(...args);
      this.#memories.push(new WeakRef((made.instance ?? made).exports.memory));
      return made;
    };
    await init(undefined, { rehearsal: this.#isCold ? false : rehearsal });
  }

  /** Prepares the replies of a server that sends all documents, one batch in each. */
  async prepare(batches, count) {
    this.#count = count;
    const pks = [];
    for (const [index, batch] of batches.entries()) {
      const rows = await Promise.all(batch.map((document) => rowOf(document, START - 1_000_000 + index)));
      pks.push(...rows.map(({ pk }) => pk));
      for (const [at, document] of batch.entries()) {
        for (const name of [document[listedBy]].flat()) {
          if (!this.#rows.has(name)) this.#rows.set(name, []);
          this.#rows.get(name).push(rows[at]);
        }
      }
      const isLast = index === batches.length - 1;
      const part = { def: "Doc", rows, left: [], total: count, ...(isLast ? { present: pks } : { next: String(index + 1) }) };
      this.#replies.push(this.#reply([part]));
    }
    const lists = allLists();
    this.#listed = lists.length > 0 ? lists : LISTED.map((index) => listed(index, count).section);
    let parts = [];
    let size = 0;
    const end = () => {
      const reply = this.#reply(parts);
      for (const { def } of parts) this.#lists.set(def, reply);
      [parts, size] = [[], 0];
    };
    for (const name of this.#listed) {
      const rows = this.#rows.get(name) ?? [];
      if (size > 0 && size + rows.length > ROWS_MAX) end();
      parts.push({ def: `Doc/${listedBy}@${await pkOf(name)}`, rows, left: [], present: rows.map(({ pk }) => pk) });
      size += rows.length;
    }
    end();
  }

  #reply(parts, results = []) {
    return encode({ p: 1, epoch: EPOCH, now: this.#now, delta: 10, seq: this.#seq, results, parts });
  }

  async open() {
    const server = {
      sync: async (request) => {
        const { subs, ops } = request;
        if (!this.#isOnline) throw new Error("no network");
        if (ops.length > 0) return this.#execute(request);
        // Each reply is one of the prepared ones; defs that it leaves out are pulled again.
        const loading = subs.filter(([, v]) => v === 0);
        const list = loading.find(([def]) => def !== "Doc");
        if (list) return this.#lists.get(list[0]) ?? this.#groupReply(list[0]);
        if (loading.length > 0) return this.#replies[Number(loading[0][2] ?? 0)];
        return this.#reply(subs.map(([def]) => ({ def, rows: [], left: [] })));
      },
      listen: (_defs, on) => {
        this.#hear = on;
      },
    };
    const secret = this.#passphrase ? { passphrase: this.#passphrase } : { key: new Uint8Array(32).fill(7) };
    this.session = await open({ org: "bench", schema, server, ...secret });
  }

  /** Subscribes without a listener: nothing is read into JavaScript. */
  #follow(match) {
    this.session.live("Doc", match, () => {})();
  }

  async arrive() {
    this.#follow({});
    for (const name of this.#listed) this.#follow({ [listedBy]: name });
    await new Promise((resolve) => {
      this.session.status.subscribe(({ phase }) => phase === "live" && resolve());
    });
    await this.session.flush();
  }

  /** Prepares the frames of a server that pushes new versions. */
  async prepareUpdates(batches, count) {
    this.#count = count;
    return Promise.all(
      batches.map(async (batch) => {
        const v = Math.max(this.#now + 1, START + 10_000);
        this.#now = v;
        for (const document of batch) this.#written.set(document.id, document);
        const rows = await Promise.all(batch.map((document) => rowOf(document, v)));
        return encode({ epoch: EPOCH, now: v, delta: 10, seq: 0, parts: [{ def: "Doc", rows, left: [] }] });
      }),
    );
  }

  async update(frames) {
    for (const frame of frames) {
      this.#hear(frame);
      await this.session.flush();
    }
  }

  all() {
    return new Promise((resolve) => {
      const stop = this.session.live("Doc", {}, (docs) => {
        queueMicrotask(() => stop());
        resolve(docs);
      });
    });
  }
  async list(section) {
    const collection = this.session.collection("Doc", { [listedBy]: section });
    await collection.whenReady();
    return collection.docs;
  }
  get(ids) {
    return Promise.all(ids.map((id) => this.session.get("Doc", [id])));
  }

  range(from, limit) {
    return this.session.query("Doc").where("n", ">=", from).orderBy("n").limit(limit).docs();
  }
  liveRange(limit, callback) {
    return this.session.query("Doc").orderBy("n").limit(limit).live(callback);
  }
  /** A live list of a group. The stop ends the subscription too: then nothing of the list is left. */
  async liveList(group, count, callback) {
    this.#count = count;
    this.#groups.set(`Doc/${listedBy}@${await pkOf(group)}`, group);
    const match = { [listedBy]: group };
    this.session.live("Doc", match, (docs, { ready }) => ready && callback(docs));
    return () => this.session.unsubscribe("Doc", match);
  }
  /** Resolves once the server has the change too: the next one is not part of the same request. */
  async change(id, n) {
    await this.session.patch("Doc", [id], { n }).accepted;
    await this.session.flush();
  }

  /** The reply of a server with the documents of a group as they arrived: newer versions stay. */
  async #groupReply(def) {
    const rows = [];
    for (let index = 0; index < this.#count; index += 1) {
      if (groupOf(index) === this.#groups.get(def)) rows.push(await rowOf(documentAt(index, this.#count), START - 1_000_000));
    }
    return this.#reply([{ def, rows, left: [], present: rows.map(({ pk }) => pk) }]);
  }

  /** W10: small operations written with no network, then drained. Returns the milliseconds of each. */
  async writes(count, operations) {
    const { session } = this;
    this.#isOnline = false;
    const start = performance.now();
    const written = [];
    for (let at = 0; at < operations; at += 1) written.push(session.patch("Doc", [idOf(at % count)], { n: at }));
    await Promise.all(written.map(({ saved }) => saved));
    const saved = performance.now();
    this.#isOnline = true;
    // The delays of a lost network end when the browser reports that it is back.
    dispatchEvent(new Event("online"));
    await Promise.all(written.map(({ accepted }) => accepted));
    await session.flush();
    return { written: saved - start, drained: performance.now() - saved };
  }

  /** Executes operations as a server does, and sends their effects. */
  async #execute({ ops, subs }) {
    this.#now += 1_000;
    const rows = [];
    for (const { args } of ops) {
      const [id] = args.key;
      const before = this.#written.get(id) ?? documentAt(Number(id.slice(1)), this.#count);
      this.#written.set(id, { ...before, ...args.set });
    }
    for (const id of new Set(ops.map(({ args }) => args.key[0]))) rows.push(await rowOf(this.#written.get(id), this.#now));
    const results = ops.map(({ id }) => ({ id, ok: { v: this.#now } }));
    this.#seq = Math.max(this.#seq, ...ops.map(({ seq }) => seq));
    return this.#reply(subs.map(([def]) => ({ def, rows: def === "Doc" ? rows : [], left: [] })), results);
  }

  async close() {
    await this.session.close();
  }
  wasmBytes() {
    return this.#memories.reduce((sum, memory) => sum + (memory.deref()?.buffer.byteLength ?? 0), 0);
  }
}

export const create = (variant) => new System(variant);
