// Random histories of news, next to a model: each promise of an operation settles with its own news, never later, and no
// rejection needs a listener. `ESCALE_SEED` plays one history again, `HISTORIES` says how many there are.
import assert from "node:assert/strict";
import { test } from "node:test";

import { EscaleError } from "../../js/dist/base/errors.js";
import { Tracker } from "../../js/dist/writes/tracker.js";
import { count, startSeed } from "../../testkit/effort.mjs";
import { randomFrom } from "../e2e/support/in-page/random.js";
import { fault, settled } from "./fake-core.mjs";

const SEED = startSeed();
const HISTORIES = process.env.ESCALE_SEED === undefined ? count("HISTORIES", 300) : 1;
const STEPS = 60;

/** The device and the server as the tracker hears of them, and the end that each promise must have come to. */
class History {
  tracker = new Tracker();
  /** The operations of the core that are not over. */
  ops = new Map();
  /** Every promise that was given: the operation that it follows, its expected end, and the one that was observed. */
  given = [];
  ends = {};
  #next = 1;

  constructor(seed) {
    this.below = randomFrom(seed);
  }

  /** One of the operations that satisfy a condition. */
  pick(condition) {
    const found = [...this.ops.values()].filter(condition);
    return found[this.below(found.length || 1)];
  }

  /** An operation of the core, which may tell news before the call has returned. */
  #make() {
    const op = { id: `op${this.#next++}`, isSaved: false, code: undefined };
    this.ops.set(op.id, op);
    return op;
  }

  issue(old) {
    let quick;
    const { id, saved, accepted } = this.tracker.issue(() => {
      const op = this.#make();
      op.isSaved = this.below(4) === 0;
      if (op.isSaved) this.tracker.take({ kind: "saved", id: op.id, where: (quick = "memory") });
      return op.id;
    }, old?.id);
    if (old) this.#replace(old, id, quick);
    for (const [name, promise] of Object.entries({ saved, accepted })) {
      const expected = name === "saved" ? quick : undefined;
      // Nobody listens to a third of them.
      const one = { at: id, name, id, expected, isSaved: quick !== undefined, isHeard: this.below(3) > 0, seen: undefined };
      this.given.push(one);
      if (one.isHeard) promise.then((end) => (one.seen = end.v ?? end), (error) => (one.seen = error.code));
    }
  }

  #replace(old, by, quick) {
    this.ops.delete(old.id);
    for (const one of this.given) {
      if (one.at !== old.id) continue;
      one.at = by;
      if (!quick) continue;
      one.isSaved = true;
      if (one.name === "saved") one.expected ??= quick;
    }
  }

  /** These promises of an operation end so, unless they have ended. */
  #end(id, end, names = ["saved", "accepted"]) {
    for (const one of this.given) if (one.at === id && names.includes(one.name)) one.expected ??= end;
  }

  save(op) {
    op.isSaved = true;
    this.tracker.take({ kind: "saved", id: op.id, where: "device" });
    this.#end(op.id, "device", ["saved"]);
    this.given.filter(({ at }) => at === op.id).forEach((one) => (one.isSaved = true));
  }

  accept(op) {
    const v = 1 + this.below(1_000);
    this.ops.delete(op.id);
    this.tracker.take({ kind: "accepted", id: op.id, v });
    this.#end(op.id, v, ["accepted"]);
  }

  refuse(op) {
    op.code = this.below(2) ? "forbidden" : "not_unique";
    this.tracker.take({ kind: "refused", id: op.id, error: fault(op.code) });
    this.#end(op.id, op.code, ["accepted"]);
  }

  /** A policy leaves the server's document, or another tab has discarded the operation. */
  giveUp(op) {
    const code = op.code ?? "version_conflict";
    this.ops.delete(op.id);
    this.tracker.take({ kind: "failed", id: op.id, error: fault(code) });
    this.#end(op.id, code);
  }

  /** A policy has resolved a conflict, or another tab has amended the operation. */
  resolve(op) {
    const by = this.#make();
    this.tracker.take({ kind: "amended", id: op.id, by: by.id });
    this.#replace(op, by.id);
  }

  discard(op) {
    this.ops.delete(op.id);
    this.tracker.fail(op.id, new EscaleError(fault(op.code)));
    this.#end(op.id, op.code);
  }

  /** The wasm dies. Some saved operations are over and some were refused, and the news of it died too. */
  die() {
    for (const op of [...this.ops.values()]) {
      const fate = this.below(4);
      if (!op.isSaved || fate === 0) this.ops.delete(op.id);
      else if (fate === 1) op.code ??= "forbidden";
    }
    this.tracker.recovered([...this.ops.values()].map(({ id, code }) => ({ id, error: code && fault(code) })));
    for (const one of this.given) {
      const op = this.ops.get(one.at);
      if (!op) one.expected ??= one.isSaved ? "forgotten" : "panicked";
      else if (one.name === "saved") one.expected ??= "device";
      else one.expected ??= op.code;
    }
  }

  close() {
    this.ops.clear();
    this.tracker.end();
    for (const one of this.given) one.expected ??= "closed";
  }
}

const isOpen = ({ code }) => code === undefined;
const STEPS_OF = {
  issue: (history) => history.issue(),
  save: (history) => [history.pick(({ isSaved }) => !isSaved), "save"],
  accept: (history) => [history.pick((op) => op.isSaved && isOpen(op)), "accept"],
  refuse: (history) => [history.pick(isOpen), "refuse"],
  giveUp: (history) => [history.pick(() => true), "giveUp"],
  resolve: (history) => [history.pick(() => true), "resolve"],
  retry: (history) => [history.pick((op) => !isOpen(op)), "issue"],
  discard: (history) => [history.pick((op) => !isOpen(op)), "discard"],
  die: (history) => history.below(4) === 0 && history.die(),
};
const KINDS = ["issue", "issue", "issue", "save", "save", ...Object.keys(STEPS_OF)];

async function play(seed, ends) {
  const history = new History(seed);
  for (let step = 0; step <= STEPS; step++) {
    const kind = KINDS[history.below(KINDS.length)];
    if (step === STEPS) history.close();
    else {
      const [op, call] = STEPS_OF[kind](history) || [];
      if (op) history[call](op);
    }
    await settled();
    const heard = history.given.filter(({ isHeard }) => isHeard);
    const wrong = heard.filter(({ seen, expected }) => seen !== expected);
    assert.deepEqual(wrong, [], `ESCALE_SEED=${seed}, step ${step}: ${kind}`);
  }
  for (const { name, expected } of history.given) ends.add(`${name} ${typeof expected === "number" ? "v" : expected}`);
}

test(`each promise settles with its own news (ESCALE_SEED=${SEED})`, async (t) => {
  const unhandled = t.mock.fn();
  process.on("unhandledRejection", unhandled);
  t.after(() => process.off("unhandledRejection", unhandled));
  const ends = new Set();
  for (let seed = SEED; seed < SEED + HISTORIES; seed++) await play(seed, ends);
  // Node reports a rejection that nobody handles once the turn is over.
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(unhandled.mock.callCount(), 0);
  if (HISTORIES === 1) return;
  const saved = ["closed", "device", "forbidden", "memory", "not_unique", "panicked", "version_conflict"].map((end) => `saved ${end}`);
  const accepted = ["closed", "forbidden", "forgotten", "not_unique", "panicked", "v", "version_conflict"].map((end) => `accepted ${end}`);
  assert.deepEqual([...ends].sort(), [...accepted, ...saved].sort(), "every end is met");
});
