// Random histories of requests: each storage of `escale-handler` gives the replies that the one in memory gives. ESCALE_SEED
// plays one of them; ESCALE_CASES says how many there are (3), and with ESCALE_EFFORT=proof there are ten times as many.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { createHandler, Fault, shaS } from "../../../handler/src/index.mjs";
import { count, startSeed } from "../../../testkit/effort.mjs";
import { randomFrom } from "../../e2e/support/in-page/random.js";
import { kinds, startPostgres } from "./support.mjs";

const CASES = count("ESCALE_CASES", 3);
const SEED = startSeed();
const STEPS = 40;

const SCHEMA = {
  Note: {
    key: ["id"],
    collections: { box: { key: ["box"], mutable: true }, tags: { key: ["tags"], list: true, mutable: true }, kind: { key: ["kind"] } },
    indexes: { code: { type: "hash", unique: true } },
  },
  Badge: { key: ["id"], indexes: { code: { type: "string", unique: true, global: true } } },
  Page: { key: ["book"] },
  Line: { in: "Page", key: ["book", "number"] },
  Account: { key: ["id"], clock: "sequence" },
  Entry: { in: "Account", key: ["account", "number"] },
  Secret: { key: ["id"], sync: false },
};
const ONE_CLASS = Object.fromEntries(Object.entries(SCHEMA).filter(([name]) => name !== "Badge"));
const BOXES = ["in", "out"];
const TAGS = ["red", "blue"];
const ORGS = ["a", "b"];
const DAY_MS = 86_400_000;

/** Adds one to a number, or refuses at five. It reads as many documents as its arguments name. */
const operations = {
  "note.count": (documents, { ids }) => {
    const found = ids.map((id) => documents.get("Note", [id]));
    const n = found.reduce((sum, one) => sum + (one?.n ?? 0), 0);
    if (n % 5 === 4) throw new Fault("enough", "A", "no more");
    ids.forEach((id, i) => found[i] && documents.patch("Note", [id], { n: (found[i].n ?? 0) + 1, old: undefined }));
    return n;
  },
  /** Ends a document with its items, and perhaps begins it again. */
  "page.end": (documents, { book, again }) => {
    if (documents.get("Page", [book])) documents.delete("Page", [book]);
    if (again) documents.put("Page", { book, text: "again" });
    return documents.get("Page", [book])?.text ?? null;
  },
};

class History {
  constructor(seed) {
    Object.assign(this, { below: randomFrom(seed), now: 1_800_000_000_000, seq: new Map(), ids: [] });
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  id() {
    return `${this.below(4)}`;
  }
  data(className) {
    const text = `${this.below(3)}`;
    if (className === "Page") return { book: this.id(), text };
    if (className === "Line") return { book: this.id(), number: this.id(), text };
    if (className === "Account") return { id: this.id(), text };
    if (className === "Entry") return { account: this.id(), number: this.id(), text };
    if (className === "Badge") return { id: this.id(), code: this.id() };
    const data = { id: this.id(), n: this.below(3) };
    if (this.below(2)) data.box = this.pick(BOXES);
    if (this.below(2)) data.tags = TAGS.filter(() => this.below(2));
    if (this.below(3) === 0) data.kind = data.id;
    if (this.below(3) === 0) data.code = this.id();
    if (this.below(4) === 0) data.raw = Uint8Array.of(this.below(256), 0);
    if (this.below(4) === 0) data.maxLife = Math.floor(this.now / 60_000) + this.below(3);
    return data;
  }
  args(schema) {
    const className = this.pick(["Note", "Note", "Note", ...Object.keys(schema)]);
    const data = this.data(className);
    const key = schema[className].key.map((name) => data[name]);
    const name = this.pick(["doc.put", "doc.put", "doc.patch", "doc.delete"]);
    const expected = this.below(4) ? {} : { ifVersion: this.pick([0, this.now, ...(this.ids.length ? [{ op: this.pick(this.ids) }] : [])]) };
    if (name === "doc.put") return { name, args: { class: className, data, ...expected } };
    const change = { set: { text: `${this.below(3)}`, ...(this.below(3) === 0 && className === "Note" && { box: this.pick(BOXES) }) }, unset: this.below(3) ? [] : ["tags", "maxLife"] };
    return { name, args: { class: className, key, ...(name === "doc.patch" && change), ...expected } };
  }
  op(schema, session) {
    const seq = (this.seq.get(session) ?? 0) + 1;
    const id = `${session} ${seq}`;
    const kind = this.below(8);
    const one = kind === 0 ? { name: "batch", args: { ops: Array.from({ length: 1 + this.below(4) }, () => this.args(schema)) } }
      : kind === 2 ? { name: "page.end", args: { book: this.id(), again: this.below(2) === 0 } }
      : kind === 1 ? { name: "note.count", args: { ids: Array.from({ length: 1 + this.below(4) }, () => this.id()) } }
      : this.args(schema);
    return { id, seq, at: 1, ...one };
  }
  /** The subscriptions of a request, with versions that a session may have. */
  subs() {
    const [id, hash] = [this.id(), shaS(this.id())];
    const all = ["Note", `Note@${shaS(id)}`, `Note/box@${shaS(this.pick(BOXES))}`, `Note/tags@${shaS(this.pick(TAGS))}`, `Note/kind@${shaS(id)}`, `Badge`, "Page", `Page@${hash}`, `Line/in@${hash}`, `Line@${shaS(`${id}/${this.id()}`)}`, `Account@${hash}`, `Entry/in@${hash}`, "Nope"];
    return all.filter(() => this.below(2)).map((def) => [def, /^(Account|Entry)/.test(def) ? this.below(4) : this.pick([0, this.now - this.below(5_000), 1])]);
  }
}

/** A message with the parts that no two databases share left out. */
function comparable({ epoch, parts, ...rest }) {
  assert.equal(typeof epoch[1], "string");
  return JSON.stringify({ ...rest, parts: parts.map((part) => ({ ...part, next: part.next !== undefined })) });
}

async function ask(handler, org, message) {
  const plain = (value) => JSON.parse(JSON.stringify(value, (_, item) => (item instanceof Uint8Array ? { $bytes: Buffer.from(item).toString("base64url") } : item)));
  const request = new Request(`http://server/${org}/sync`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(plain({ p: 1, ...message })) });
  const response = await handler.fetch(request);
  const reply = await response.json();
  assert.equal(response.status, 200, JSON.stringify(reply));
  return reply;
}

/** Plays a seed on all of them. After each step, all have answered the same. */
async function play(seed, storages) {
  const history = new History(seed);
  const schema = history.below(2) ? SCHEMA : ONE_CLASS;
  const errors = [];
  const options = { schema, operations, clock: () => history.now, retentionMs: DAY_MS, resultsMs: 2 * DAY_MS, pageBytes: 300, writeMs: Infinity, onError: (error) => errors.push(error) };
  const handlers = storages.map((storage) => createHandler({ storage, ...options }));
  for (let step = 0; step < STEPS; step++) {
    history.now += history.below(3) * 1_000;
    if (history.below(15) === 0) {
      history.now += DAY_MS + history.below(2) * DAY_MS;
      for (const handler of handlers) await handler.purge();
    }
    const [org, session] = [history.pick(ORGS), `s${history.below(2)}`];
    const name = `${org}${session}`;
    const ops = history.below(3) ? [history.op(schema, name)] : [];
    // Sometimes an operation that was sent before, or one after a gap.
    if (ops.length && history.below(6) === 0) ops[0].seq = Math.max(1, ops[0].seq + history.pick([-1, 1]));
    const asked = history.subs();
    let subs = handlers.map(() => asked);
    for (let pages = 0; pages < 20; pages++) {
      const replies = [];
      for (const [i, handler] of handlers.entries()) replies.push(await ask(handler, org, { session: name, ops: pages ? [] : ops, subs: subs[i] }));
      const texts = replies.map(comparable);
      for (const text of texts) assert.equal(text, texts[0], `ESCALE_SEED=${seed}, step ${step}: ${JSON.stringify(ops)}`);
      const [{ results, parts, seq }] = replies;
      history.seq.set(name, seq);
      if (results[0]?.ok) history.ids.push(results[0].id);
      if (!parts.some(({ next }) => next)) break;
      subs = replies.map((reply, i) => reply.parts.flatMap(({ def, next }) => (next ? [[def, subs[i].find(([one]) => one === def)[1], next]] : [])));
    }
  }
  assert.deepEqual(errors, []);
}

const postgresql = startPostgres();
after(() => postgresql.stop());
const all = await kinds(postgresql);

for (let seed = SEED; seed < SEED + CASES; seed++) {
  test(`all storages give the same replies: ESCALE_SEED=${seed}`, async (t) => {
    const storages = [];
    for (const [, make] of all) storages.push(await make(t));
    await play(seed, storages);
  });
}
