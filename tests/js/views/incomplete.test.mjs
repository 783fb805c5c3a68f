// R94: a list, a document, a count or a query that may lack documents is not ready, says why, and says so until it is
// complete. ESCALE_SEED plays one history, REFUSALS says how many there are.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { randomFrom } from "../../e2e/support/in-page/random.js";
import { defineSchema } from "../../../js/dist/schema/schema.js";
import { liveStore, queryStore } from "../../../js/dist/frameworks/stores.js";
import { fault, openFake, recorder, settled } from "../fake-core.mjs";

const schema = defineSchema({
  Note: { key: ["name"] },
  Package: { key: ["name"], collections: { section: { key: ["section"] } } },
  Part: { in: "Package", key: ["name", "part"] },
});
const TOO_MANY = "too_many_subscriptions";
const match = (n) => ({ section: `s${n}` });
const defOf = (n) => `Package/${JSON.stringify(match(n))}`;
const filler = (n) => `Filler/${n}`;

/** A session that has place for so many more subscriptions. */
async function openWithRoom(room, options) {
  const opened = await openFake(schema, options);
  for (let n = room; n < 1_000; n++) opened.core.subscribe(filler(n), 0);
  return opened;
}

test("r94_a_list_that_the_server_has_withdrawn_is_let_go_with_its_last_listener", async () => {
  const { session, core } = await openFake(schema);
  core.subscribe(filler(0), 0);
  const note = session.live("Note", {}, () => {});
  const again = session.live("Note", {}, () => {});
  await settled();
  core.tell({ faults: { Note: fault("withdrawn") } });
  note();
  await settled();
  assert.equal(core.called("unsubscribe"), 0, "somebody still shows why it is empty");
  again();
  await settled();
  assert.deepEqual(core.calls.filter(([name]) => name === "unsubscribe"), [["unsubscribe", "Note"]], "nobody waits 30 days with a fault");
  core.tell({ faults: {} });
  session.live("Note", {}, () => {})();
  await settled();
  assert.equal(core.called("unsubscribe"), 1, "one that is not refused stays for its time");
});

test("r94_without_a_place_every_door_is_not_ready_and_says_why", async () => {
  const { session, core } = await openWithRoom(0);
  const [live, count, tree] = [recorder(), recorder(), recorder()];
  session.live("Package", match(0), live.callback);
  const collection = session.collection("Package", match(1), { keep: "forever" });
  const held = session.collection("Package", match(2));
  held.subscribe(() => {});
  const store = liveStore(session, "Package", match(3));
  store.subscribe(() => {});
  const document = session.document("Package", ["a"], { items: ["Part"] });
  document.subscribe(tree.callback);
  session.query("Package").liveCount(count.callback);
  const queried = queryStore(session, () => session.query("Part"));
  queried.subscribe(() => {});
  await settled();
  const codeOf = ({ ready, error }) => [ready, error?.code];
  assert.deepEqual(codeOf(live.seen.at(-1)[1]), [false, TOO_MANY]);
  assert.deepEqual([collection.ready, collection.error.code], [false, TOO_MANY]);
  assert.deepEqual([held.ready, held.error.code], [false, TOO_MANY]);
  assert.deepEqual(codeOf(store.get()), [false, TOO_MANY]);
  assert.deepEqual([...codeOf(tree.seen.at(-1)[1]), tree.seen.at(-1)[1].whole], [false, TOO_MANY, false]);
  assert.deepEqual(codeOf(count.seen.at(-1)[1]), [false, TOO_MANY]);
  assert.deepEqual(codeOf(queried.get()), [false, TOO_MANY]);
  assert.deepEqual(codeOf(session.query("Package").state), [false, TOO_MANY]);
  assert.deepEqual(codeOf(session.query("Note").state), [true, undefined], "no subscription of the class is refused");
  await assert.rejects(collection.whenReady(), { code: TOO_MANY, message: /1000/ });
  await assert.rejects(document.whenReady(), { code: TOO_MANY });
  assert.equal(Object.keys(session.status.faults).length, 6);
  assert.equal(session.subscriptions().length, 1_000, "nothing was asked for");
  core.tell({ phase: "live", error: null });
  assert.equal(Object.keys(session.status.faults).length, 6, "another success changes nothing");
});

test("r94_a_place_that_becomes_free_goes_to_the_one_that_waits_longest", async () => {
  const { session, core } = await openWithRoom(1);
  const [first, second, third] = [0, 1, 2].map((n) => session.collection("Package", match(n), { keep: "forever" }));
  await settled();
  assert.deepEqual([first.error, second.error.code, third.error.code], [undefined, TOO_MANY, TOO_MANY]);
  session.unsubscribe(filler(5));
  await settled();
  assert.deepEqual([second.error, third.error.code], [undefined, TOO_MANY]);
  core.unsubscribe(filler(6));
  await settled();
  assert.deepEqual([third.error, session.status.faults], [undefined, {}], "another tab has ended one");
  const count = recorder();
  session.query("Package").liveCount(count.callback);
  for (const n of [0, 1, 2]) core.becomeReady(defOf(n));
  await settled();
  assert.deepEqual(count.seen.at(-1), [0, { ready: true, error: undefined }]);
  assert.deepEqual(await third.whenReady(), []);
});

test("r94_a_list_that_was_loaded_is_not_ready_while_the_server_refuses_it", async () => {
  const { session, core } = await openFake(schema);
  const [list, count] = [recorder(), recorder()];
  session.live("Package", match(0), list.callback);
  session.query("Package").liveCount(count.callback);
  const within = recorder();
  session.query("Package").in(match(1)).live(within.callback);
  const other = session.collection("Package", match(1), { keep: "forever" });
  core.put(defOf(0), { name: "a" });
  for (const n of [0, 1]) core.becomeReady(defOf(n));
  await settled();
  assert.deepEqual([list.seen.at(-1)[1].ready, count.seen.at(-1)[1].ready], [true, true]);
  core.tell({ faults: { [defOf(0)]: fault("forbidden") } });
  await settled();
  const [docs, state] = list.seen.at(-1);
  assert.deepEqual([docs.length, state.ready, state.whole, state.error.code], [1, false, false, "forbidden"]);
  assert.deepEqual([count.seen.at(-1)[1].ready, count.seen.at(-1)[1].error.code], [false, "forbidden"]);
  assert.deepEqual([other.ready, within.seen.at(-1)[1].ready], [true, true], "they do not need it");
  core.tell({ faults: {} });
  await settled();
  assert.deepEqual([list.seen.at(-1)[1].ready, count.seen.at(-1)[1].ready], [true, true]);
});

test("r94_a_query_over_a_class_that_is_held_whole_needs_no_other_subscription", async () => {
  const { session, core } = await openWithRoom(1);
  session.collection("Package", {}, { keep: "forever" });
  session.collection("Package", match(0), { keep: "forever" });
  core.becomeReady("Package");
  await settled();
  assert.deepEqual(session.query("Package").state, { ready: true, error: undefined });
  core.tell({ faults: { Package: fault("forbidden") } });
  assert.equal(session.query("Package").state.ready, false);
});

test("r94_lists_that_a_scope_leads_to_without_a_place_make_their_class_incomplete", async () => {
  const { session, core } = await openWithRoom(2);
  const leads = (...numbers) => core.put("Note", { name: "n", leads: numbers });
  session.collection("Note", {}, { keep: "forever" });
  const count = recorder();
  session.query("Package").liveCount(count.callback);
  session.scope({ Note: { Package: ({ leads }) => leads.map(match) } });
  const last = () => [count.seen.at(-1)[1].ready, count.seen.at(-1)[1].error?.code];
  await settled();
  assert.deepEqual(last(), [false, undefined], "a note that is still to come may lead to others");
  leads(0, 1, 2);
  core.becomeReady("Note");
  await settled();
  core.becomeReady(defOf(0));
  await settled();
  assert.deepEqual(last(), [false, TOO_MANY]);
  assert.deepEqual(Object.keys(session.status.faults), [defOf(1), defOf(2)]);
  leads(0, 1);
  await settled();
  assert.deepEqual(Object.keys(session.status.faults), [defOf(1)], "the rules lead to it no more");
  core.unsubscribe(filler(7));
  await settled();
  core.becomeReady(defOf(1));
  await settled();
  assert.deepEqual([last(), session.status.faults], [[true, undefined], {}]);
});

test("r94_a_rule_of_a_scope_that_fails_makes_its_classes_incomplete", async () => {
  const { session, core } = await openFake(schema);
  const reported = globalThis.reportError;
  globalThis.reportError = () => {};
  try {
    session.collection("Note", {}, { keep: "forever" });
    core.put("Note", { name: "n", leads: 1 });
    core.becomeReady("Note");
    session.scope({ Note: { Package: ({ leads }) => [1, 2].slice(leads).map((n) => match(n.toFixed())).concat(leads < 2 ? leads.none() : []) } });
    await settled();
    core.tell({ error: null });
    assert.equal(session.query("Package").state.error?.code, "bad_option");
    assert.equal(session.status.faults.Package?.code, "bad_option", "it lasts");
    core.put("Note", { name: "n", leads: 2 });
    await settled();
    assert.deepEqual([session.query("Package").state, session.status.faults], [{ ready: true, error: undefined }, {}]);
  } finally {
    globalThis.reportError = reported;
  }
});

test("a document that another def holds is shown under a scope, and needs no subscription of its own", async () => {
  const { session, core } = await openFake(schema);
  session.collection("Note", {}, { keep: "forever" });
  core.put("Note", { name: "n" });
  core.becomeReady("Note");
  session.scope({ Note: { Package: () => [match(0)] } }, { exclusive: true });
  await settled();
  core.put(defOf(0), { name: "a", size: 1 });
  core.becomeReady(defOf(0));
  await settled();
  const before = session.subscriptions();
  const held = session.collection("Package", { key: ["a"] });
  const stop = held.subscribe(() => {});
  await settled();
  assert.deepEqual([held.docs, held.ready, held.error], [[{ name: "a", size: 1 }], true, undefined]);
  const one = session.collection("Package", { key: ["a"] });
  assert.deepEqual(await one.whenReady(), [{ name: "a", size: 1 }]);
  assert.deepEqual([session.subscriptions(), session.status.faults], [before, {}], "it takes no place");
  core.put(defOf(0), { name: "a", size: 2 });
  await settled();
  assert.equal(held.docs[0].size, 2);
  core.remove(defOf(0), "a");
  await settled();
  assert.deepEqual([held.docs, held.ready, held.error?.code], [[], false, "out_of_scope"]);
  assert.deepEqual(Object.keys(session.status.faults).length, 1);
  core.put(defOf(0), { name: "a", size: 3 });
  await settled();
  assert.deepEqual([held.docs[0].size, held.error, session.status.faults], [3, undefined, {}]);
  stop();
});

test("r94_what_nobody_shows_any_more_is_no_fault", async () => {
  const { session } = await openWithRoom(0);
  const stop = session.collection("Package", match(0)).subscribe(() => {});
  session.collection("Package", match(1), { keep: "forever" });
  await settled();
  assert.equal(Object.keys(session.status.faults).length, 2);
  stop();
  session.unsubscribe("Package", match(1));
  await settled();
  assert.deepEqual([session.status.faults, session.query("Package").state.ready], [{}, true]);
});

const NUMBERS = [0, 1, 2, 3, 4, 5];

/** The subscriptions of one session, kept in the plain way: those that the core has, a queue, and those outside of the scope. */
class Model {
  loaded = new Map();
  queue = [];
  outside = new Set();
  kept = new Set();
  faults = new Map();
  fillers;
  /** The numbers that the scope leads to, while there is one. */
  leads;
  mode = "synced";

  constructor(fillers) {
    this.fillers = fillers;
  }
  want(n) {
    this.outside.delete(n);
    if (this.leads && !this.leads.has(n)) this.outside.add(n);
    else if (!this.loaded.has(n) && !this.queue.includes(n)) this.queue.push(n);
  }
  drop(n) {
    this.loaded.delete(n);
    this.queue = this.queue.filter((one) => one !== n);
    this.outside.delete(n);
  }
  follow(leads) {
    const before = this.leads ?? new Set();
    this.leads = leads;
    for (const n of leads) if (!before.has(n)) this.want(n);
    for (const n of [...this.loaded.keys(), ...this.queue]) {
      if (leads.has(n)) continue;
      this.drop(n);
      if (this.kept.has(n)) this.outside.add(n);
    }
  }
  stop() {
    this.leads = undefined;
    // Nobody else wants those for which there was no place.
    this.queue = this.queue.filter((n) => this.kept.has(n));
    for (const n of [...this.outside]) this.want(n);
  }
  admit() {
    while (this.queue.length > 0 && this.fillers + this.loaded.size < 1_000) this.loaded.set(this.queue.shift(), false);
  }
  codeOf(n) {
    if (this.queue.includes(n)) return TOO_MANY;
    if (this.outside.has(n)) return "out_of_scope";
    const refused = this.faults.get(n) ?? (this.mode === "avion" && !this.loaded.get(n) ? "not_loaded" : undefined);
    return refused;
  }
  isReady(n) {
    return this.loaded.get(n) === true && this.codeOf(n) === undefined;
  }
}

async function play(seed) {
  const below = randomFrom(seed);
  const pick = (list) => list[below(list.length)];
  const room = 1 + below(6);
  const { session, core } = await openWithRoom(room);
  session.collection("Note", {}, { keep: "forever" });
  core.put("Note", { name: "n", leads: [] });
  core.becomeReady("Note");
  const model = new Model(1_000 - room + 1);
  const lists = new Map();
  const [count, whole] = [recorder(), recorder()];
  session.query("Package").liveCount(count.callback);
  session.query("Package").in(match(0)).live(whole.callback);
  let stop;
  let next = 2_000;
  let leads = new Set();
  const steps = {
    show() {
      const n = pick(NUMBERS);
      model.kept.add(n);
      model.want(n);
      const list = recorder();
      lists.set(n, { list, collection: session.collection("Package", match(n)) });
      session.live("Package", match(n), list.callback);
    },
    end() {
      const n = pick(NUMBERS);
      if (model.leads?.has(n)) return;
      model.kept.delete(n);
      model.drop(n);
      lists.delete(n);
      session.unsubscribe("Package", match(n));
    },
    load() {
      const n = pick(NUMBERS);
      if (!model.loaded.has(n)) return;
      model.loaded.set(n, true);
      core.becomeReady(defOf(n));
    },
    refuse() {
      const n = pick(NUMBERS);
      if (below(2)) model.faults.set(n, pick(["forbidden", "server_error"]));
      else model.faults.delete(n);
      const told = (code) => ({ ...fault(code), retryable: code === "server_error" });
      core.tell({ faults: Object.fromEntries([...model.faults].map(([one, code]) => [defOf(one), told(code)])) });
    },
    crowd() {
      const isFuller = below(2) === 0 && model.fillers + model.loaded.size < 1_000;
      if (isFuller) core.subscribe(filler(next++), 0);
      else {
        const found = session.subscriptions().find((def) => def.startsWith("Filler"));
        core.unsubscribe(found);
      }
      model.fillers += isFuller ? 1 : -1;
    },
    scope() {
      stop?.();
      if (stop) model.stop();
      else model.follow(leads);
      stop = stop ? undefined : session.scope({ Note: { Package: (note) => note.leads.map(match) } }, { exclusive: true });
    },
    lead() {
      leads = new Set(NUMBERS.filter(() => below(3) === 0));
      core.put("Note", { name: "n", leads: [...leads] });
      if (stop) model.follow(leads);
    },
    mode() {
      model.mode = model.mode === "avion" ? "synced" : "avion";
      core.tell({ mode: model.mode });
    },
    succeed() {
      core.tell({ error: null, phase: "live" });
    },
  };
  for (let step = 0; step < 40; step++) {
    const name = pick(Object.keys(steps));
    steps[name]();
    model.admit();
    await settled();
    const at = `ESCALE_SEED=${seed}, step ${step}: ${name}`;
    const has = NUMBERS.filter((n) => session.subscriptions().includes(defOf(n)));
    assert.deepEqual(has, [...model.loaded.keys()].sort(), `${at}: the core's subscriptions`);
    for (const [n, { collection, list }] of lists) {
      const wanted = [model.isReady(n), model.codeOf(n)];
      assert.deepEqual([collection.ready, collection.error?.code], wanted, `${at}: the list ${n}`);
      assert.deepEqual([list.seen.at(-1)?.[1].ready, list.seen.at(-1)?.[1].error?.code], wanted, `${at}: the listener ${n}`);
    }
    const wanted = NUMBERS.filter((n) => model.kept.has(n) || model.loaded.has(n) || model.queue.includes(n) || model.outside.has(n));
    const isComplete = wanted.every((n) => model.isReady(n));
    const { ready, error } = session.query("Package").state;
    assert.equal(ready, isComplete, `${at}: the query`);
    assert.equal(error !== undefined, wanted.some((n) => model.codeOf(n)), `${at}: its error`);
    assert.equal(count.seen.at(-1)[1].ready, isComplete, `${at}: the live count`);
    assert.equal(whole.seen.at(-1)[1].ready, model.isReady(0), `${at}: the query within a list`);
    const refused = [...model.faults.keys(), ...model.queue, ...model.outside].map(defOf);
    assert.deepEqual(Object.keys(session.status.faults).sort(), [...new Set(refused)].sort(), `${at}: the faults`);
  }
  await session.close();
}

test("r94_ready_and_error_are_those_of_the_plain_model", { timeout: 600_000 }, async () => {
  const seed = process.env.ESCALE_SEED;
  const histories = seed === undefined ? count("REFUSALS", 40) : 1;
  const first = startSeed();
  for (let history = 0; history < histories; history++) await play(first + history);
});
