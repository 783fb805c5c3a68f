// A document that another subscription holds needs none of its own, as long as that lasts. ESCALE_SEED plays one history,
// COVERS says how many there are.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count } from "../../../testkit/effort.mjs";
import { randomFrom } from "../../e2e/support/in-page/random.js";
import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, recorder, settled } from "../fake-core.mjs";

const schema = defineSchema({
  Package: { key: ["name"], collections: { section: { key: ["section"] } } },
  File: { in: "Package", key: ["package", "path"] },
});
const one = (name) => ({ key: [name] });
const defOf = (name) => `Package/${JSON.stringify(one(name))}`;
const LIST = 'Package/{"section":"games"}';
const GAMES = { section: "games" };

/** A session that shows a list with one document. */
async function openListed(keep) {
  const { session, core } = await openFake(schema);
  const stop = session.live("Package", GAMES, () => {}, { keep });
  core.put(LIST, { name: "chess" });
  core.becomeReady(LIST);
  await settled();
  return { session, core, stop };
}

test("a document that a list holds is shown with no subscription of its own", async () => {
  const { session, core } = await openListed();
  const { callback, calls, seen } = recorder();
  const document = session.collection("Package", one("chess"));
  document.subscribe(callback);
  assert.deepEqual(await calls(1), [[{ name: "chess" }], { ready: true, whole: true, error: undefined }]);
  assert.equal(seen[0][0][0], session.collection("Package", GAMES).docs[0], "the same object");
  assert.deepEqual(await document.whenReady(), [{ name: "chess" }]);
  assert.deepEqual(session.subscriptions(), [LIST]);
  // It follows the changes of the list.
  core.put(LIST, { name: "chess", n: 1 });
  assert.deepEqual((await calls(2))[0], [{ name: "chess", n: 1 }]);
  assert.deepEqual([session.subscriptions(), session.status.faults], [[LIST], {}]);
});

test("it takes a subscription when it leaves the list, and when the list ends", async () => {
  for (const letGo of [({ core }) => core.remove(LIST, "chess"), ({ session }) => session.unsubscribe(LIST)]) {
    const opened = await openListed();
    const { callback, calls, seen } = recorder();
    opened.session.live("Package", one("chess"), callback);
    await calls(1);
    letGo(opened);
    await settled();
    assert.ok(opened.session.subscriptions().includes(defOf("chess")));
    assert.deepEqual([seen.at(-1)[1].ready, seen.at(-1)[1].error], [false, undefined], "it is loading");
    opened.core.put(defOf("chess"), { name: "chess", n: 2 });
    opened.core.becomeReady(defOf("chess"));
    await settled();
    assert.deepEqual(seen.at(-1), [[{ name: "chess", n: 2 }], { ready: true, whole: true, error: undefined }]);
  }
});

test("a document that no list holds, one that is kept for ever, and one with its items have their own", async () => {
  const { session, core } = await openListed();
  session.live("Package", one("go"), () => {});
  assert.ok(session.subscriptions().includes(defOf("go")));
  session.live("Package", one("chess"), () => {});
  assert.ok(!session.subscriptions().includes(defOf("chess")));
  session.document("Package", ["chess"], { items: ["File"] }).subscribe(() => {});
  assert.ok(session.subscriptions().includes(defOf("chess")), "a document and its items come in one state");
  core.put(LIST, { name: "shogi" });
  session.collection("Package", one("shogi"), { keep: "forever" });
  assert.ok(session.subscriptions().includes(defOf("shogi")));
  // One that has begun stays, also when a list comes to hold its document.
  core.put(LIST, { name: "go" });
  await settled();
  assert.ok(session.subscriptions().includes(defOf("go")));
});

test("a document that would outlive its list has its own", async () => {
  const { session } = await openListed(86_400_000);
  session.live("Package", one("chess"), () => {}, { keep: 60_000 });
  assert.ok(!session.subscriptions().includes(defOf("chess")));
  const other = await openListed(86_400_000);
  other.session.live("Package", one("chess"), () => {});
  assert.ok(other.session.subscriptions().includes(defOf("chess")), "it is kept for 30 days, and its list for one");
});

test("a document whose list is refused has its own, and says what it knows", async () => {
  const { session, core } = await openListed();
  const { callback, calls, seen } = recorder();
  session.live("Package", one("chess"), callback);
  await calls(1);
  core.tell({ faults: { [LIST]: { code: "forbidden", kind: "S", retryable: false, message: "no", cure: "" } } });
  await settled();
  assert.ok(session.subscriptions().includes(defOf("chess")));
  assert.equal(seen.at(-1)[1].ready, false, "nothing refreshes the list's document");
});

test("whoever has gone leaves nothing behind", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { session, core } = await openListed();
  session.live("Package", one("chess"), () => {}, { keep: 0 })();
  t.mock.timers.tick(1);
  await settled();
  session.live("Package", one("chess"), () => {}, { keep: 60_000 })();
  core.remove(LIST, "chess");
  await settled();
  assert.ok(session.subscriptions().includes(defOf("chess")), "it stays for its time");
  t.mock.timers.tick(60_000);
  await settled();
  assert.deepEqual(session.subscriptions(), [LIST]);
});

/** A random history: each document that is listened to is subscribed to or held by a list, and shown as it is there. */
async function play(seed) {
  const below = randomFrom(seed);
  const { session, core } = await openFake(schema);
  const NAMES = ["a", "b", "c"];
  const LISTS = ["s0", "s1"].map((section) => ({ match: { section }, def: `Package/${JSON.stringify({ section })}` }));
  const shown = new Map();
  const listed = new Map();
  let [covered, version] = [0, 0];
  const holders = (name) => core.subscriptions().filter((def) => core.has(def, name));
  const steps = {
    list() {
      const { match, def } = LISTS[below(2)];
      if (listed.has(def)) return session.unsubscribe(def), void listed.delete(def);
      listed.set(def, session.live("Package", match, () => {}));
      core.becomeReady(def);
    },
    put() {
      const { def } = LISTS[below(2)];
      if (listed.has(def)) core.put(def, { name: NAMES[below(3)], n: version++ });
    },
    remove() {
      const [{ def }, name] = [LISTS[below(2)], NAMES[below(3)]];
      if (listed.has(def) && core.has(def, name)) core.remove(def, name);
    },
    listen() {
      const name = NAMES[below(3)];
      const known = shown.get(name);
      if (known) return known.stop(), void shown.delete(name);
      const last = { docs: [] };
      shown.set(name, { last, stop: session.live("Package", one(name), (docs) => void (last.docs = docs)) });
    },
  };
  for (let step = 0; step < 60; step++) {
    const names = Object.keys(steps);
    const name = names[below(names.length)];
    steps[name]();
    await settled();
    for (const [document, { last }] of shown) {
      const held = holders(document);
      const at = `ESCALE_SEED=${seed}, step ${step}: ${name}, ${document}`;
      const isSubscribed = session.subscriptions().includes(defOf(document));
      assert.ok(isSubscribed || held.length > 0, `${at} is neither subscribed to nor held`);
      if (!isSubscribed) {
        covered += 1;
        assert.equal(last.docs.length, 1, `${at} is held, and not shown`);
      }
    }
  }
  assert.deepEqual(session.status.faults, {});
  await session.close();
  return covered;
}

test("random histories of lists and documents leave none without a subscription", { timeout: 600_000 }, async () => {
  const seeds = process.env.ESCALE_SEED ? [Number(process.env.ESCALE_SEED)] : Array.from({ length: count("COVERS", 200) }, (_, n) => n);
  let covered = 0;
  for (const seed of seeds) covered += await play(seed);
  console.log(`# ${seeds.length} histories, ${covered} times a document was shown by a list's subscription`);
  assert.ok(process.env.ESCALE_SEED || covered > seeds.length, "documents are covered");
});
