// The decisions of files, from random histories, next to a reference that looks at everything again each time. `ESCALE_SEED`
// repeats a run, `PLANS` sets the number of histories.
import assert from "node:assert/strict";
import { test } from "node:test";

import { evicted, planOf, unshared, usage } from "../../../js/dist/files/plan.js";
import { count, startSeed } from "../../../testkit/effort.mjs";

const SEED = startSeed();
const PLANS = process.env.ESCALE_SEED === undefined ? count("PLANS", 400) : 1;
const MIB = 1 << 20;
const DAY_MS = 24 * 3_600_000;
const VERDICTS = ["forbidden", "too_large", "not_supported", "quota_exceeded", "local_data_lost", "bad_value"];
const PASSING = ["offline", "unavailable", "storage_failed", "file_missing"];

/** Numbers and choices from a seed (mulberry32). */
function chanceOf(seed) {
  let state = seed >>> 0;
  const below = (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
  const one = (list) => list[below(list.length)];
  const some = (list) => list.filter(() => below(2) === 0);
  return { below, one, some };
}

/** The sha of a file: it has the form of a digest. */
const shaOf = (name) => `${name}${"_".repeat(43)}`.slice(0, 42) + "A";
const DIGESTS = Array.from({ length: 7 }, (_, n) => shaOf(`digest${n}`));

/** A device with some files, which share chunks, and some of their bytes. */
class Device {
  constructor({ below, one }) {
    const lengthOf = (digest) => (DIGESTS.indexOf(digest) === 0 ? MIB : 1 + DIGESTS.indexOf(digest) * 1_000);
    this.records = Array.from({ length: 1 + below(6) }, (_, n) => {
      const whole = Array.from({ length: below(4) }, () => one(DIGESTS));
      const last = one(DIGESTS);
      const chunks = [...whole, last];
      const size = whole.length * MIB + lengthOf(last);
      const key = size > MIB ? shaOf(`list${n}`) : chunks[0];
      return { key, size, chunks: size > MIB ? chunks : [key], added: below(3) && below(2 * DAY_MS), read: below(5), names: (size > MIB ? chunks : [key]).map((digest) => `c/${digest}`) };
    }).filter((file, at, all) => all.findIndex(({ key }) => key === file.key) === at);
    this.held = new Set(DIGESTS.filter(() => below(3)).map((digest) => `c/${digest}`));
  }

  files() {
    return this.records;
  }
  entry(key) {
    return this.records.find((file) => file.key === key);
  }
  isHeld(name) {
    return this.held.has(name);
  }
  missing(key) {
    return this.entry(key)?.names.flatMap((name, place) => (this.held.has(name) ? [] : [place])) ?? [];
  }
  here(key) {
    const file = this.entry(key);
    let sum = 0;
    for (const place of file ? file.names.keys() : []) if (this.held.has(file.names[place])) sum += Math.min(MIB, file.size - place * MIB);
    return sum;
  }
}

/** Plays all histories in one test, and names the seed of one that fails. */
function histories(name, play) {
  test(`${name} (ESCALE_SEED=${SEED})`, () => {
    for (let n = 0; n < PLANS; n++) {
      const seed = (SEED + n) >>> 0;
      try {
        play(chanceOf(seed));
      } catch (error) {
        error.message = `ESCALE_SEED=${seed}: ${error.message}`;
        throw error;
      }
    }
  });
}

/** A server, and a caller that carries effects out one at a time, in any order. */
class Sends {
  epoch = 1;
  objects = new Set();
  lists = new Set();
  isFree = true;
  /** Effects that take time, and the steps that wait for them. */
  tasks = [];
  states = new Map();
  /** The files that the core waits for, the words that it got, and the epoch of the last word that each file is there. */
  needed = new Set();
  words = [];
  told = new Map();
  /** The objects that the server has, by its answers. */
  known = new Set();

  constructor(chance) {
    this.chance = chance;
    this.device = new Device(chance);
    this.plan = planOf(this.device, () => this.isFree);
    for (const digest of chance.some(DIGESTS)) this.objects.add(digest);
  }

  run(effects, then = () => {}) {
    const waiting = [];
    for (const [effect, ...of] of effects) {
      if (effect === "state") this.state(...of);
      else if (effect === "settle") this.settle(...of);
      else waiting.push([effect, ...of]);
    }
    let left = waiting.length;
    if (left === 0) then();
    for (const [effect, ...of] of waiting) this.tasks.push({ effect, of, then: () => --left === 0 && then() });
  }

  state(sha, doing) {
    this.states.set(sha, doing);
    if (doing?.phase !== "sending") return;
    const { size, chunks } = this.device.entry(sha);
    let sent = 0;
    for (const [place, digest] of chunks.entries()) if (this.known.has(digest)) sent += Math.min(MIB, size - place * MIB);
    assert.deepEqual([doing.sent, this.needed.has(sha), this.isFree], [sent, true, true], "sending");
  }

  settle(shas, verdict, epoch) {
    assert.ok(shas.length > 0);
    for (const sha of shas) {
      assert.ok(this.needed.delete(sha), `${verdict} for one that the core does not wait for`);
      assert.equal(this.states.get(sha)?.code, VERDICTS.includes(verdict) ? verdict : undefined);
      if (verdict === "there") {
        assert.ok(this.answer?.has(sha), "a word that the server did not give");
      }
      this.words.push([sha, verdict]);
    }
    if (verdict === "there") assert.deepEqual(epoch, [this.answerEpoch, "e"]);
    else assert.equal(epoch, undefined);
  }

  /** The core asks for these, and for no others. */
  need(shas) {
    const before = this.needed;
    this.needed = new Set(shas);
    const gone = [...before].filter((sha) => !this.needed.has(sha));
    const effects = this.plan.need(shas);
    assert.deepEqual(effects, gone.map((sha) => ["state", sha, null]));
    this.run(effects);
    assert.deepEqual(this.plan.needed(), [...this.needed]);
  }

  /** The round ends. Chunks that are on their way arrive all the same, but nothing follows them. */
  end() {
    this.tasks = this.tasks.flatMap(({ effect, of }) => (effect === "put" ? [{ effect, of, then: () => {} }] : []));
  }

  /** A round begins. */
  begin() {
    this.end();
    const late = this.tasks.length;
    const shas = this.plan.needed();
    const isHere = (sha) => this.device.entry(sha)?.added > 0 || (this.device.entry(sha) && this.device.here(sha) === this.device.entry(sha).size);
    const words = this.words.length;
    this.run(this.plan.found(shas.map((sha) => [sha, this.device.entry(sha)])));
    assert.deepEqual(this.words.slice(words), shas.filter((sha) => !isHere(sha)).map((sha) => [sha, "absent"]));
    const here = shas.filter(isHere);
    assert.deepEqual(this.tasks.slice(late).map(({ effect }) => effect), here.length > 0 ? ["ask"] : []);
  }

  /** The server answers which of these it has: a list is there if it was stored as one. */
  have(shas) {
    this.answerEpoch = this.epoch;
    return (this.answer = new Set(shas.filter((sha) => this.objects.has(sha))));
  }

  /** One of the effects happens. */
  step() {
    const [task] = this.tasks.splice(this.chance.below(this.tasks.length), 1);
    const { effect, of, then } = task;
    const [file, digest] = of;
    const { plan } = this;
    if (effect === "ask") {
      const [files, shas] = of;
      assert.deepEqual(shas, files.flatMap(({ key, chunks }) => [key, ...chunks]));
      const there = this.have(shas);
      this.known = new Set(there);
      const news = files.map(({ key }) => key).filter((sha) => this.needed.has(sha) && there.has(sha) && this.told.get(sha) !== `${this.epoch},e`);
      // Whether or not the core still waits for it.
      for (const { key } of files) if (there.has(key)) this.told.set(key, `${this.epoch},e`);
      const words = this.words.length;
      const effects = plan.answered(files, there, [this.epoch, "e"]);
      const left = files.filter(({ key }) => this.needed.has(key) && !news.includes(key));
      assert.deepEqual(effects.at(-1), ["send", left], "those without a word are sent");
      this.run(effects, then);
      assert.deepEqual(this.words.slice(words), news.map((sha) => [sha, "there"]));
    } else if (effect === "send") {
      let left = file.length;
      if (left === 0) then();
      for (const one of file) this.send(one, () => --left === 0 && then());
    } else if (effect === "turn") {
      const effects = plan.turn(file, digest);
      const isDue = this.needed.has(file.key) && this.isFree && !this.known.has(digest);
      assert.deepEqual(effects, isDue ? [["put", file, digest]] : [], "the turn of a chunk");
      this.run(effects, then);
    } else if (effect === "put") {
      this.objects.add(digest);
      this.known.add(digest);
      this.run(plan.stored(file, digest), then);
    } else if (effect === "list") {
      const lacking = file.chunks.filter((one) => !this.objects.has(one));
      if (lacking.length > 0) {
        for (const one of lacking) this.known.delete(one);
        plan.lack(lacking);
        return this.fail(task, "file_missing");
      }
      this.objects.add(file.key);
      this.lists.add(file.key);
      this.run(plan.sent(file, true), then);
    } else {
      if (!this.have([file.key]).has(file.key)) return this.fail(task, "unavailable");
      this.told.set(file.key, `${this.epoch},e`);
      this.run(plan.confirmed(file, [this.epoch, "e"]), then);
    }
    this.check();
  }

  send(file, then) {
    this.run(this.plan.sending(file));
    const digests = [...new Set(file.chunks)];
    let left = digests.length;
    const whole = () => {
      const effects = this.plan.sent(file);
      const isDue = this.needed.has(file.key) && this.isFree && digests.every((digest) => this.known.has(digest));
      assert.deepEqual(effects, isDue ? [[file.size > MIB ? "list" : "confirm", file]] : [], "all chunks had their turn");
      this.run(effects, then);
    };
    for (const digest of digests) this.tasks.push({ effect: "turn", of: [file, digest], then: () => --left === 0 && whole() });
  }

  /** An effect fails. A verdict ends its files, and any other error ends the round. */
  fail({ effect, of: [file], then }, code) {
    const files = effect === "ask" ? file : [file];
    const words = this.words.length;
    const wanted = files.filter(({ key }) => this.needed.has(key));
    const effects = this.plan.refused(files, code);
    if (!VERDICTS.includes(code)) {
      assert.equal(effects, undefined);
      this.end();
      return;
    }
    this.run(effects);
    const wordOf = ({ added }) => (code === "local_data_lost" && !added ? "absent" : code);
    assert.deepEqual(this.words.slice(words), wanted.map((one) => [one.key, wordOf(one)]));
    then();
    this.check();
  }

  /** No transfer is under way for a file that the core does not wait for. */
  check() {
    for (const [sha, doing] of this.states) if (doing?.phase === "sending") assert.ok(this.needed.has(sha), "a transfer that is over");
  }
}

histories("uploads: each file gets its word, the bytes go before the list, and nothing is sent for nothing", (chance) => {
  const { below, one, some } = chance;
  const sends = new Sends(chance);
  const shas = [...sends.device.records.map(({ key }) => key), shaOf("unknown")];
  for (let steps = 0; steps < 60; steps++) {
    switch (below(9)) {
      case 0:
        sends.need(some(shas));
        break;
      case 1:
        if (sends.isFree) sends.begin();
        break;
      case 2: {
        sends.isFree = below(3) > 0;
        if (sends.isFree) break;
        const effects = sends.plan.pause();
        assert.deepEqual(effects, [...sends.needed].map((sha) => ["state", sha, null]));
        sends.run(effects);
        break;
      }
      case 3:
        if (below(4) > 0) break;
        // Another database: the server lost objects.
        sends.epoch += 1;
        sends.objects = new Set(some([...sends.objects]));
        break;
      case 4: {
        const failing = sends.tasks.filter(({ effect }) => effect !== "send" && effect !== "turn");
        if (failing.length === 0) break;
        const task = one(failing);
        sends.tasks.splice(sends.tasks.indexOf(task), 1);
        sends.fail(task, one([...VERDICTS, ...PASSING, ...PASSING]));
        break;
      }
      default:
        if (sends.tasks.length > 0) sends.step();
    }
  }
  // From now on nothing fails: each file that the core waits for has its word in the end.
  sends.isFree = true;
  for (let rounds = 0; sends.needed.size > 0; rounds++) {
    assert.ok(rounds < 3, "the rounds do not end");
    sends.begin();
    while (sends.tasks.length > 0) sends.step();
  }
  for (const [sha, doing] of sends.states) assert.ok(doing === null || doing.phase === "failed", sha);
});

histories("downloads: the files of the present documents, but for those that failed, in the order of the rules", ({ below, one, some }) => {
  const device = new Device({ below, one });
  const plan = planOf(device, () => true);
  const refs = [...device.records.map(({ key, size }) => ({ sha: key, size })), { sha: shaOf("elsewhere"), size: 5 * MIB }, { sha: DIGESTS[2], size: 2_001 }];
  const values = [...refs, null, "text", { sha: "short", size: 1 }, { sha: DIGESTS[0] }, 7];
  /** Each rule, in the order in which it was followed last, with its documents. */
  const rules = new Map();
  const failed = new Set();
  for (let steps = 0; steps < 40; steps++) {
    const id = `rule${below(4)}`;
    const rule = one([{ class: "Note", match: {} }, { class: "Note", match: {}, max: 2_500 }, refs[0]]);
    const known = rules.get(id);
    switch (below(6)) {
      case 0:
        plan.follow(id, rule);
        rules.set(id, { rule, documents: undefined, names: [] });
        break;
      case 1:
        plan.release(id);
        rules.delete(id);
        break;
      case 2: {
        if (!known) break;
        const documents = Array.from({ length: below(4) }, () => ({ photo: one(values), scans: some(values), other: one(refs) }));
        const names = one([["photo", "scans"], ["photo"], []]);
        plan.match(id, known.rule, documents, names);
        Object.assign(known, { documents, names });
        break;
      }
      case 3: {
        const ref = one(refs);
        const [code, isRetryable] = one([["file_missing", false], ["offline", true], ["file_damaged", true], ["forbidden", false]]);
        const doing = plan.unloaded(ref, code, isRetryable);
        assert.deepEqual(doing, code === "offline" ? undefined : { phase: "failed", code });
        if (doing) failed.add(ref.sha);
        break;
      }
      case 4:
        if (below(3) > 0) break;
        plan.back();
        failed.clear();
        break;
      default: {
        const name = `c/${one(DIGESTS)}`;
        if (!device.held.delete(name)) device.held.add(name);
      }
    }
    // The reference goes through all documents.
    const isRef = (value) => refs.includes(value);
    const wanted = [];
    for (const { rule, documents, names } of rules.values()) {
      const own = documents ? documents.flatMap((document) => names.flatMap((name) => document[name])).filter(isRef) : [rule].filter(isRef);
      for (const ref of own) if (!documents || ref.size <= (rule.max ?? Infinity)) wanted.push(ref);
    }
    const shas = [...new Set(wanted.map(({ sha }) => sha))];
    assert.deepEqual([...plan.wanted().keys()], shas);
    const isHere = (sha) => device.entry(sha) && device.here(sha) >= wanted.findLast((ref) => ref.sha === sha).size;
    assert.deepEqual(plan.toLoad().map(({ sha }) => sha), shas.filter((sha) => !failed.has(sha) && !isHere(sha)));
    assert.equal(plan.isComplete(), [...rules.values()].every(({ rule, documents }) => documents || isRef(rule)));
    for (const ref of plan.toLoad()) {
      const places = device.entry(ref.sha) ? device.entry(ref.sha).names.flatMap((name, place) => (device.held.has(name) ? [] : [place])) : [0];
      assert.deepEqual(plan.places(ref), places);
    }
  }
});

histories("evictions: bytes with a reason stay, the least recently read go first, and shared chunks stay with others", ({ below, one, some }) => {
  const device = new Device({ below, one });
  const plan = planOf(device, () => true);
  const keys = device.records.map(({ key }) => key);
  const [local, referenced, needed, kept] = [some(keys), some(keys), some(keys), some(keys)];
  const now = 2 * DAY_MS;
  plan.need(needed);
  plan.follow("rule", { class: "Note", match: {} });
  plan.match("rule", {}, kept.map((sha) => ({ photo: { sha, size: device.entry(sha).size } })), ["photo"]);
  const reasonOf = plan.reasons(now, local, referenced);
  const expected = ({ key, added }) => {
    if (local.includes(key)) return "local";
    const isPending = referenced.includes(key) || needed.includes(key) || now - added < DAY_MS;
    return isPending ? "pending" : kept.includes(key) ? "kept" : "cached";
  };
  for (const file of device.records) assert.equal(reasonOf(file), expected(file));

  const most = one([0, 1_000, MIB, 10 * MIB]);
  const left = device.records.filter((file) => expected(file) === "cached");
  const gone = [];
  const bytes = () => left.reduce((sum, { key }) => sum + device.here(key), 0);
  // One at a time: the oldest, then those without bytes.
  for (;;) {
    const oldest = Math.min(...left.map(({ read }) => read));
    const next = bytes() > most ? left.find(({ read }) => read === oldest) : left.find(({ key }) => device.here(key) === 0);
    if (!next) break;
    left.splice(left.indexOf(next), 1);
    gone.push(next.key);
  }
  const groups = evicted(device, most, reasonOf);
  assert.deepEqual(groups.flat().map(({ key }) => key).sort(), gone.sort());
  const reads = groups.flat().map(({ read }) => read);
  assert.deepEqual(reads, reads.toSorted((a, b) => a - b));

  const own = groups.flat();
  const names = own.flatMap((file) => file.names);
  const others = device.records.filter((file) => !own.includes(file));
  assert.deepEqual(unshared(device, names, own), names.filter((name) => !others.some((file) => file.names.includes(name))));

  const sums = { pending: 0, local: 0, kept: 0, cached: 0 };
  for (const name of device.held) {
    const file = device.records.find((file) => file.names.includes(name));
    if (!file) continue;
    sums[expected(file)] += Math.min(MIB, file.size - file.names.indexOf(name) * MIB);
  }
  assert.deepEqual(usage(device, reasonOf), sums);
});

test("many files are evicted in groups of a hundred", () => {
  const records = Array.from({ length: 250 }, (_, n) => ({ key: `${n}`, read: 250 - n, names: [`c${n}`], size: 1, added: 0 }));
  const device = { files: () => records, here: () => 1 };
  const groups = evicted(device, 30, () => "cached");
  assert.deepEqual(groups.map(({ length }) => length), [100, 100, 20]);
  assert.deepEqual(groups.flat().map(({ key }) => key), records.toReversed().slice(0, 220).map(({ key }) => key));
});

test("chunks that the server lacks after all are sent at their next turn, and the file waits for them", () => {
  const file = { key: shaOf("list"), size: 2 * MIB, chunks: DIGESTS.slice(0, 2), added: 1, names: [] };
  const plan = planOf({ missing: () => [], entry: () => file }, () => true);
  plan.need([file.key]);
  plan.answered([file], new Set(file.chunks), [1, "e"]);
  assert.deepEqual(plan.sent(file), [["list", file]]);
  plan.lack([DIGESTS[1]]);
  assert.deepEqual([plan.turn(file, DIGESTS[0]), plan.turn(file, DIGESTS[1]), plan.sent(file)], [[], [["put", file, DIGESTS[1]]], []]);
  assert.deepEqual(plan.stored(file, DIGESTS[1]), [["state", file.key, { phase: "sending", sent: 2 * MIB }]]);
  assert.deepEqual(plan.sent(file, true), [["confirm", file]]);
  assert.deepEqual(plan.confirmed(file, [1, "e"]), [["state", file.key, null], ["settle", [file.key], "there", [1, "e"]]]);
});
