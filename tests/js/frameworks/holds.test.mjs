// Subscriptions: they end some time after their last listener, and only if nobody else wants them.
import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, settled } from "../fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"], collections: { section: { key: ["section"] } } } });
const DAY = 86_400_000;

/** Runs a test whose timers only the test moves, with the locks of a browser. */
function timed(name, body) {
  test(name, async () => {
    const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
    const locks = { held: [], pending: [] };
    Object.defineProperty(globalThis, "navigator", { configurable: true, value: { locks: { query: async () => locks } } });
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000 * DAY });
    try {
      await body(locks);
    } finally {
      mock.timers.reset();
      if (before) Object.defineProperty(globalThis, "navigator", before);
      else delete globalThis.navigator;
    }
  });
}

async function pass(ms) {
  mock.timers.tick(ms);
  await settled();
}

timed("a subscription begins with its first listener, and ends some time after the last", async () => {
  const { session, core } = await openFake(schema);
  const held = session.collection("Package", {}, { keep: 1_000 });
  assert.deepEqual(session.subscriptions(), [], "nobody listens yet");
  const stops = [held.subscribe(() => {}), session.collection("Package", {}, { keep: 500 }).subscribe(() => {})];
  assert.deepEqual(session.subscriptions(), ["Package"]);
  stops[0]();
  stops[0]();
  await pass(5_000);
  assert.deepEqual(session.subscriptions(), ["Package"], "another one listens");
  stops[1]();
  await pass(999);
  assert.deepEqual(session.subscriptions(), ["Package"], "the longest time counts");
  await pass(1);
  assert.deepEqual(session.subscriptions(), []);
  assert.equal(core.called("unsubscribe"), 1);
  held.subscribe(() => {});
  assert.deepEqual(session.subscriptions(), ["Package"]);
});

timed("a listener that comes back in time keeps the subscription", async () => {
  const { session } = await openFake(schema);
  const held = session.collection("Package", {}, { keep: 0 });
  for (let mount = 0; mount < 10; mount++) held.subscribe(() => {})();
  const stop = held.subscribe(() => {});
  await pass(DAY);
  assert.deepEqual(session.subscriptions(), ["Package"]);
  stop();
  await pass(0);
  assert.deepEqual(session.subscriptions(), []);
});

timed("a thousand mounts and unmounts of each door leave no subscription after their time, and a listener none ends", async () => {
  const { session, core } = await openFake(schema);
  core.tell({ leads: true });
  const own = session.live("Package", { section: "own" }, () => {}, { keep: 0 });
  const doors = [
    (section) => session.live("Package", { section }, () => {}, { keep: 1_000 })(),
    (section) => session.collection("Package", { section }, { keep: 1_000 }).subscribe(() => {})(),
    (section) => session.document("Package", [section], { keep: 1_000 }).subscribe(() => {})(),
    (section) => void session.collection("Package", { section }, { keep: 1_000 }).whenReady().catch(() => {}),
  ];
  for (let mount = 0; mount < 1_000; mount++) doors[mount % 3](`s${mount % 50}`);
  doors[3]("waited");
  core.becomeReady('Package/{"section":"waited"}');
  await settled();
  assert.ok(session.subscriptions().length > 50);
  await pass(1_000);
  assert.deepEqual(session.subscriptions(), ['Package/{"section":"own"}']);
  await pass(400 * DAY);
  assert.deepEqual(session.subscriptions(), ['Package/{"section":"own"}']);
  own();
  await pass(0);
  assert.deepEqual(session.subscriptions(), []);
});

timed("by default it stays for 30 days", async () => {
  const { session } = await openFake(schema);
  session.collection("Package", {}).subscribe(() => {})();
  session.live("Package", { section: "a" }, () => {})();
  session.document("Package", ["a"]).subscribe(() => {})();
  for (let day = 0; day < 29; day++) await pass(DAY);
  assert.deepEqual(session.subscriptions().length, 3);
  await pass(DAY);
  assert.deepEqual(session.subscriptions(), []);
});

timed("a subscription that is kept for ever stays, whichever came first", async () => {
  const { session } = await openFake(schema);
  const match = (section) => ({ section });
  session.live("Package", match("before"), () => {}, { keep: "forever" })();
  for (const section of ["before", "after"]) session.collection("Package", match(section), { keep: 0 }).subscribe(() => {})();
  session.collection("Package", match("after"), { keep: "forever" });
  await pass(DAY);
  assert.equal(session.subscriptions().length, 2);
});

timed("a subscription of an earlier opening stays, unless it was held then", async () => {
  const { session, core } = await openFake(schema);
  core.subscribe("Package", 0);
  session.collection("Package", {}, { keep: 0 }).subscribe(() => {})();
  await pass(DAY);
  assert.deepEqual(session.subscriptions(), ["Package"]);
});

/** A lease on the device: held on that day, and for so many days after it. */
const lease = (day, days) => day * 65_536 + days;

timed("the device is given a lease when a holder comes, and once a day while it is held", async () => {
  const { session, core } = await openFake(schema);
  const held = session.collection("Package", {}, { keep: 4.5 * DAY });
  const stop = held.subscribe(() => {});
  assert.equal(core.rests.get("Package"), lease(1_000, 5));
  await pass(DAY);
  assert.equal(core.rests.get("Package"), lease(1_001, 5));
  session.collection("Package", {}, { keep: 7 * DAY }).subscribe(() => {})();
  assert.equal(core.rests.get("Package"), lease(1_001, 7), "the longest time counts");
  await pass(DAY / 2);
  mock.timers.setTime(1_003 * DAY);
  stop();
  assert.equal(core.rests.get("Package"), lease(1_003, 7), "the day of the last holder counts");
  session.collection("Package", { section: "ever" }, { keep: Infinity }).subscribe(() => {});
  assert.equal(core.rests.get('Package/{"section":"ever"}'), lease(1_003, 65_535));
});

timed("a later opening ends what nobody held for its time, once holders had a minute to come", async () => {
  const { session, core } = await openFake(schema);
  core.tell({ leads: true });
  const def = (section) => `Package/{"section":"${section}"}`;
  for (const section of ["over", "held", "listed"]) core.subscribe(def(section), lease(994, 5));
  core.subscribe(def("young"), lease(995, 5));
  core.subscribe(def("forever"), 0);
  session.collection("Package", { section: "held" }, { keep: 0 }).subscribe(() => {});
  session.live("Package", { section: "listed" }, () => {});
  await pass(59_999);
  assert.equal(session.subscriptions().length, 5);
  await pass(1);
  const rest = () => session.subscriptions().map((def) => /"(\w+)"}/.exec(def)[1]).sort();
  assert.deepEqual(rest(), ["forever", "held", "listed", "young"]);
  await pass(DAY);
  assert.deepEqual(rest(), ["forever", "held", "listed"], "a session that stays open looks once a day");
  await pass(100 * DAY);
  assert.equal(rest().length, 3);
});

timed("only the tab that leads ends what is over", async () => {
  const { session, core } = await openFake(schema);
  core.tell({ leads: false });
  core.subscribe("Package", lease(900, 5));
  await pass(60_000);
  assert.deepEqual(session.subscriptions(), ["Package"]);
  core.tell({ leads: true });
  await pass(DAY);
  assert.deepEqual(session.subscriptions(), []);
});

timed("after the clock was set back, the time begins again", async () => {
  const { session, core } = await openFake(schema);
  core.tell({ leads: true });
  core.subscribe("Package", lease(1_400, 5));
  await pass(60_000);
  assert.equal(core.rests.get("Package"), lease(1_000, 5));
  await pass(5 * DAY);
  assert.deepEqual(session.subscriptions(), ["Package"]);
  await pass(DAY);
  assert.deepEqual(session.subscriptions(), []);
});

timed("a list of an earlier opening that is held again ends some time after its last holder", async () => {
  const { session, core } = await openFake(schema);
  core.subscribe("Package", lease(999, 3));
  const stop = session.collection("Package", {}, { keep: 0 }).subscribe(() => {});
  assert.equal(core.rests.get("Package"), lease(1_000, 3));
  for (let day = 0; day < 10; day++) await pass(DAY);
  assert.deepEqual(session.subscriptions(), ["Package"]);
  stop();
  for (const ms of [DAY, DAY, DAY - 1]) await pass(ms);
  assert.deepEqual(session.subscriptions(), ["Package"], "the longest time counts, that of the earlier opening too");
  await pass(1);
  assert.deepEqual(session.subscriptions(), []);
});

timed("`forever` makes a lease permanent, of this opening or of an earlier one", async () => {
  const { session, core } = await openFake(schema);
  core.subscribe("Package", lease(900, 3));
  session.live("Package", {}, () => {}, { keep: "forever" })();
  session.collection("Package", { section: "a" }, { keep: 0 }).subscribe(() => {});
  session.collection("Package", { section: "a" }, { keep: "forever" });
  assert.deepEqual([...core.rests.values()], [0, 0]);
});

timed("it does not end while another tab has the store open", async (locks) => {
  const { session } = await openFake(schema);
  locks.held = [{ name: "escale1-x-lead" }, { name: "escale1-other-lead" }];
  locks.pending = [{ name: "escale1-x-lead" }];
  session.collection("Package", {}, { keep: 0 }).subscribe(() => {})();
  await pass(0);
  await pass(59_999);
  assert.deepEqual(session.subscriptions(), ["Package"]);
  locks.pending = [];
  await pass(1);
  assert.deepEqual(session.subscriptions(), []);
});

timed("a store that cannot be asked for its tabs is asked again", async () => {
  const { session, core } = await openFake(schema);
  const inspect = core.inspect.bind(core);
  core.inspect = () => Promise.reject(new Error("no"));
  session.collection("Package", {}, { keep: 0 }).subscribe(() => {})();
  await pass(0);
  assert.deepEqual(session.subscriptions(), ["Package"]);
  let inspections = 0;
  core.inspect = (limit) => (inspections++, inspect(limit));
  await pass(60_000);
  assert.deepEqual(session.subscriptions(), []);
  session.collection("Package", {}, { keep: 0 }).subscribe(() => {})();
  await pass(0);
  assert.deepEqual([session.subscriptions(), inspections], [[], 1], "the store is inspected once");
});

timed("a listener that comes while the tabs are asked keeps the subscription", async () => {
  const { session } = await openFake(schema);
  const held = session.collection("Package", {}, { keep: 0 });
  held.subscribe(() => {})();
  mock.timers.tick(0);
  const stop = held.subscribe(() => {});
  await settled();
  assert.deepEqual(session.subscriptions(), ["Package"]);
  stop();
  await pass(0);
  assert.deepEqual(session.subscriptions(), []);
});

timed("a session that closes leaves no timer", async () => {
  const { session, core } = await openFake(schema);
  const held = session.collection("Package", {}, { keep: 1_000 });
  held.subscribe(() => {})();
  await session.close();
  await pass(DAY);
  assert.equal(core.called("unsubscribe"), 0);
  assert.throws(() => held.subscribe(() => {}), { code: "closed" });
  assert.throws(() => session.collection("Package", {}), { code: "closed" });
  assert.equal(held.error.code, "closed");
});

timed("what is held says what the server refuses, and what avion never loads", async () => {
  const { session, core } = await openFake(schema);
  const held = session.collection("Package", {});
  let calls = 0;
  held.subscribe(() => calls++);
  const told = calls;
  core.tell({ faults: { Package: { code: "forbidden", kind: "S", retryable: false, message: "x", cure: "y" } } });
  await settled();
  assert.ok(calls > told);
  assert.equal(held.error.code, "forbidden");
  core.tell({ mode: "avion", faults: {} });
  assert.equal(held.error.code, "not_loaded");
  core.put("Package", { name: "a" });
  core.becomeReady("Package");
  await settled();
  assert.deepEqual([held.error, held.ready, held.docs.length], [undefined, true, 1]);
  assert.equal(session.collection("Package", { section: "x" }).error, undefined, "nobody has looked yet");
});
