// One random history: several sessions write and pull at once; answers are lost, requests are repeated, copied and
// overtake each other. At the end each def is the same in three ways: pulled step by step, pulled at once, and as the
// model says.
import { Failure } from "../check.mjs";
import { isNotExecuted } from "../faults.mjs";
import { note, randomFrom, uuid } from "../names.mjs";
import { Copy, Model, differenceOf, membersOf } from "./model.mjs";

class Player {
  constructor(kit, history, i) {
    Object.assign(this, { kit, history, session: kit.session({ org: history.org }), below: randomFrom(history.seed + i), seq: 0, queue: [] });
    this.copies = new Map();
    this.pick = (list) => list[this.below(list.length)];
  }
  /** A counter: it is read, and written for the version that was read. Each increment counts once. */
  async increment() {
    const { rows } = await this.session.pull(note("counter"));
    const { v, data } = rows[0];
    const args = { class: "Note", key: ["counter"], set: { n: data.n + 1 }, ifVersion: v };
    this.add([{ kind: "patch", className: "Note", key: ["counter"], data: args.set, isCount: true }], { name: "doc.patch", args });
  }
  add(writes, { name, args }) {
    this.queue.push({ writes, op: { id: uuid(), seq: (this.seq += 1), name, args, at: 1 } });
  }
  async act() {
    const choice = this.below(10);
    if (choice < 4) {
      const write = this.history.world.write(this);
      this.add([write], write.op);
    } else if (choice < 5) {
      const writes = Array.from({ length: 1 + this.below(4) }, () => this.history.world.write(this));
      this.add(writes, { name: "batch", args: { ops: writes.map(({ op }) => op) } });
    } else if (choice < 6) await this.increment();
    else if (choice < 8) await this.flush();
    else for (let i = 0; i < 3; i++) await this.pull(this.pick(this.history.world.defs));
  }
  /** Sends the waiting operations, under one of the fates of a network. */
  async flush() {
    if (!this.queue.length) return;
    const ops = this.queue.map(({ op }) => op);
    const fate = this.below(6);
    if (fate === 0) return void (await this.session.sync({ ops }, { dropsAnswer: true }));
    if (fate === 1) {
      const copies = await Promise.all([1, 2, 3].map(() => this.session.sync({ ops })));
      copies.forEach((exchange) => this.took(exchange));
      return;
    }
    if (fate === 2 && ops.length > 1) {
      const middle = 1 + this.below(ops.length - 1);
      const both = await Promise.all([this.session.sync({ ops: ops.slice(middle) }), this.session.sync({ ops: ops.slice(0, middle) })]);
      both.forEach((exchange) => this.took(exchange));
      return;
    }
    this.took(await this.session.sync({ ops }));
  }
  took(exchange) {
    for (const { id, ok, fault } of exchange.reply.results ?? []) {
      if (fault && isNotExecuted(fault)) {
        if (!["contention", "order_gap", "unavailable"].includes(fault.code)) throw new Failure(`no ${fault.code} in a history`, exchange);
        continue;
      }
      const known = this.history.ends.get(id);
      const end = JSON.stringify(ok ? ["ok", ok.v, ok.trees] : ["fault", fault.code]);
      if (known !== undefined && known !== end) throw new Failure(`one result of an operation, ${known}, and not ${end}`, exchange);
      if (known !== undefined) continue;
      this.history.ends.set(id, end);
      const found = this.queue.find(({ op }) => op.id === id);
      if (ok) {
        this.history.model.accept(found.writes, ok);
        this.history.counted += found.writes.filter(({ isCount }) => isCount).length;
      }
      this.queue = this.queue.filter(({ op }) => op.id !== id);
    }
  }
  async pull(def) {
    if (!this.copies.has(def)) this.copies.set(def, new Copy(def));
    const copy = this.copies.get(def);
    copy.take(await this.session.load(def, copy.v));
  }
  async finish() {
    for (let i = 0; i < 100 && this.queue.length; i++) this.took(await this.session.sync({ ops: this.queue.map(({ op }) => op) }));
    if (this.queue.length) throw new Failure(`a result of each operation, and ${this.queue.length} have none`, this.kit.last);
  }
}

const BEGUN = { id: "counter", n: 0 };

export class History {
  constructor(kit, { org, seed, world }) {
    Object.assign(this, { kit, org, seed, world, ends: new Map(), model: new Model(), counted: 0 });
    this.reader = kit.session({ org });
    this.players = [0, 1, 2].map((i) => new Player(kit, this, i));
  }
  async begin() {
    const { v } = await this.reader.put("Note", BEGUN);
    this.model.accept([{ kind: "put", className: "Note", key: ["counter"], data: BEGUN }], { v });
  }
  /** Lets all sessions act at once, for some rounds. */
  async play(rounds) {
    await Promise.all(this.players.map(async (player) => {
      for (let i = 0; i < rounds; i++) await player.act();
    }));
  }
  /** Waits until each operation has its result. */
  async settle() {
    for (const player of this.players) await player.finish();
  }
  copy() {
    return { accepted: [...this.model.accepted], counted: this.counted };
  }
  /** The server knows no more than it knew at the time of the copy: all sessions begin again. */
  restored({ accepted, counted }) {
    Object.assign(this, { counted, ends: new Map() });
    this.model.accepted = accepted;
    this.reader = this.kit.session({ org: this.org });
    this.players = this.players.map((_, i) => new Player(this.kit, this, i + 3));
  }
  /** Fails if the server is not in the state that its answers promise. */
  async end() {
    await this.settle();
    const { documents, mistakes } = this.model.replay();
    if (mistakes.length) throw new Failure(mistakes[0], this.kit.last);
    const counter = (await this.reader.pull(note("counter"))).rows[0].data.n;
    this.kit.equal(counter, this.counted, "the counter, after as many accepted increments");
    for (const def of this.world.defs) await this.compare(def, membersOf(documents, def));
  }
  async compare(def, wanted) {
    const differs = (how, copy) => {
      const difference = differenceOf(copy.members, wanted);
      if (difference) throw new Failure(`${def} pulled ${how} equal to the accepted operations: ${difference} (seed ${this.seed})`, this.kit.last);
    };
    const whole = new Copy(def);
    whole.take(await this.reader.load(def));
    differs("from 0", whole);
    for (const player of this.players) {
      if (!player.copies.has(def)) continue;
      await player.pull(def);
      differs("step by step", player.copies.get(def));
    }
  }
}
