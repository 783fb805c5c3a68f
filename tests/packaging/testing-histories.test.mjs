// Random histories in worlds of `escale/testing`: in the end each session equals the server, and each
// saved operation ran once. ESCALE_SEED plays one of them, HISTORIES says how many there are.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineOperations, defineSchema } from "escale";
import { testing } from "escale/testing";

import { count, startSeed } from "../../testkit/effort.mjs";
import { randomFrom } from "../e2e/support/in-page/random.js";

const schema = defineSchema({
  Note: {
    key: ["id"],
    collections: { box: { key: ["box"], mutable: true }, tags: { key: ["tags"], list: true, mutable: true } },
    properties: { n: "number", maxLife: "number" },
  },
  Count: { key: ["id"], properties: { n: "number" } },
  Book: { key: ["id"], properties: { n: "number" } },
  Page: { in: "Book", key: ["book", "id"], properties: { n: "number" } },
  Ledger: { key: ["id"], clock: "sequence", properties: { n: "number" } },
  Entry: { in: "Ledger", key: ["book", "id"], properties: { n: "number" } },
});
const operations = defineOperations(schema, { "count.add": { optimistic: () => {} } });
const DEVICES = ["phone", "desk", "tablet"];
const BOXES = ["in", "out"];
const TAGS = ["red", "blue"];
const MATCHES = [["Note", {}], ["Count", {}], ["Note", { box: "in" }], ["Note", { box: "out" }], ["Note", { tags: "red" }], ["Note", { key: ["1"] }], ["Book", {}], ["Page", { book: "0" }], ["Page", { book: "1" }], ["Ledger", { key: ["0"] }], ["Ledger", { key: ["1"] }], ["Entry", { book: "0" }], ["Entry", { book: "1" }]];
const STEPS = 60;
/** Answers lost one after another delay a session for longer than `settled` waits by default. */
const WITHIN = { within: 120_000 };

/** Whether the server's document is one that the match selects. */
function isIn(match, doc) {
  if (match.key) return doc.id === match.key[0];
  if (match.book) return doc.book === match.book;
  if (match.box) return doc.box === match.box;
  return match.tags ? Boolean(doc.tags?.includes(match.tags)) : true;
}

class History {
  constructor(seed) {
    this.below = randomFrom(seed);
    this.log = [];
    this.open = new Map();
    this.added = [0, 0]; // saved operations `count.add`, and those that the server ran
    this.counts = {};
  }
  pick(list) {
    return list[this.below(list.length)];
  }

  async begin() {
    const server = {
      "count.add": (documents) => {
        this.added[1] += 1;
        const n = (documents.get("Count", ["all"])?.n ?? 0) + 1;
        documents.put("Count", { id: "all", n });
        return n;
      },
    };
    this.world = await testing({ schema, operations, server, pageRows: 1 + this.below(20), conflicts: { Note: this.pick(["server", "client", "merge"]), Entry: this.pick(["server", "client", "merge"]) } });
  }

  async session() {
    const device = this.pick(DEVICES);
    if (!this.open.has(device)) {
      const session = await this.world.open({ device });
      session.refused.subscribe((refused) => refused.forEach((one) => this.discard(one)));
      this.open.set(device, session);
    }
    return [device, this.open.get(device)];
  }

  /** Discards a refused write, unless its session ends first. */
  async discard(one) {
    try {
      await one.discard();
    } catch (error) {
      assert.equal(error.code, "closed");
    }
  }

  document() {
    const data = { id: `${this.below(6)}`, n: this.below(100) };
    if (this.below(3)) data.box = this.pick(BOXES);
    if (this.below(3)) data.tags = TAGS.filter(() => this.below(2));
    if (this.below(8) === 0) data.maxLife = Math.floor(this.world.now / 60_000) + 1 + this.below(3);
    return data;
  }

  /** Writes a book or one of its pages: both, if the book is new. */
  writeTree(to) {
    // A ledger counts its own versions, a book has times.
    const [parent, item] = this.pick([["Book", "Page"], ["Ledger", "Entry"]]);
    const [book, id, n] = [`${this.below(2)}`, `${this.below(3)}`, this.below(100)];
    try {
      switch (this.below(5)) {
        case 0:
          return void to.put(parent, { id: book, n });
        case 1:
          return void to.delete(parent, [book]);
        case 2:
          return void to.delete(item, [book, id]);
        case 3:
          return void to.patch(item, [book, id], { n });
        default:
          return void to.put(item, { book, id, n });
      }
    } catch (error) {
      // Of a document that is not there, or of an item without its parent.
      assert.equal(error.code, "not_found");
    }
  }

  write(to) {
    if (this.below(3) === 0) return this.writeTree(to);
    const { id, ...changes } = this.document();
    const kind = this.pick(["put", "put", "patch", "delete"]);
    try {
      if (kind === "put") to.put("Note", { id, ...changes });
      else if (kind === "patch") to.patch("Note", [id], changes);
      else to.delete("Note", [id]);
    } catch (error) {
      // Of a document that is not there.
      assert.equal(error.code, "not_found");
    }
  }

  actions = {
    write: (session) => this.write(session),
    batch: (session) => void session.batch((tx) => [0, 1, 2].slice(this.below(3)).forEach(() => tx.put("Note", this.document()))),
    own: () => this.write(this.world),
    subscribe: (session) => void session.collection(...this.pick(MATCHES), { keep: "forever" }),
    unsubscribe: (session) => {
      const defs = session.subscriptions();
      if (defs.length) session.unsubscribe(this.pick(defs));
    },
    async add(session) {
      await session.run("count.add", {}).saved;
      this.added[0] += 1;
    },
    cut: (session) => this.world.offline(this.below(3) ? session : undefined),
    mend: (session) => this.world.online(this.below(3) ? session : undefined),
    lose: (session) => this.world.loseAnswer(session),
    conflict: () => this.world.conflict((world) => this.write(world)),
    time: () => this.world.advance(60_000 * (1 + this.below(2))),
    settle: () => this.world.settled(WITHIN),
    async kill(session, device) {
      this.open.delete(device);
      await this.world.kill(session);
    },
    async close(session, device) {
      this.open.delete(device);
      await session.close();
    },
    hold: async (session) => {
      const resume = this.world.slow(session);
      try {
        await session.put("Note", this.document()).saved;
      } catch (error) {
        // A conflict of an earlier write, by the policy `server`, has discarded this one before it was saved.
        assert.equal(error.code, "version_conflict");
      }
      resume();
    },
  };

  async play() {
    const { write, add, ...others } = this.actions;
    const all = { write, add, ...others };
    const names = [...Object.keys(all), "write", "write", "write", "add", "subscribe", "own", "own"];
    for (let step = 0; step < STEPS; step++) {
      const [device, session] = await this.session();
      const name = this.pick(names);
      this.log.push(`${step} ${device} ${name}`);
      this.counts[name] = (this.counts[name] ?? 0) + 1;
      await all[name].call(this, session, device);
    }
    this.log.push("in the end");
    for (let device = 0; device < DEVICES.length; device++) {
      this.below = () => device; // each device opens again, and sends what it had saved
      await this.session();
    }
    for (const session of this.open.values()) for (const match of MATCHES) session.collection(...match, { keep: "forever" });
    this.world.online();
    for (const session of this.open.values()) this.world.online(session);
    await this.world.settled(WITHIN);
    for (const [device, session] of this.open) {
      for (const [className, match] of MATCHES) {
        const theirs = this.world.docs(className).filter((doc) => isIn(match, doc));
        assert.deepEqual([...session.collection(className, match).docs], theirs, `${device} ${className} ${JSON.stringify(match)}`);
      }
      assert.equal(session.status.value.error, null);
      assert.deepEqual(session.pending(), []);
    }
    assert.equal(this.added[1], this.added[0], "each saved operation ran once");
    assert.equal(this.world.docs("Count")[0]?.n ?? 0, this.added[0]);
  }
}

test("in the end each session equals the server, and each saved operation ran once", { timeout: 300_000 }, async () => {
  const first = startSeed();
  const histories = process.env.ESCALE_SEED ? 1 : count("HISTORIES", 20);
  const counts = {};
  for (let seed = first; seed < first + histories; seed++) {
    const history = new History(seed);
    await history.begin();
    try {
      await history.play();
    } catch (error) {
      throw new Error(`ESCALE_SEED=${seed}: ${error.message}\n${history.log.join("\n")}`, { cause: error });
    } finally {
      await history.world.close();
    }
    for (const [name, count] of Object.entries(history.counts)) counts[name] = (counts[name] ?? 0) + count;
  }
  console.log(`# ${histories} histories from seed ${first}: ${JSON.stringify(counts)}`);
});
