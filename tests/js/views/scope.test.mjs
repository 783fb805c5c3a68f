// R22: a scope holds the subscriptions to which documents lead. It ends those alone, unless it is exclusive, and none that
// somebody else listens to or keeps. ESCALE_SEED plays one history, SCOPES says how many there are.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { randomFrom } from "../../e2e/support/in-page/random.js";
import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, settled } from "../fake-core.mjs";

const schema = defineSchema({
  Note: { key: ["name"] },
  Package: { key: ["name"], collections: { section: { key: ["section"] } } },
});
const NUMBERS = [0, 1, 2, 3, 4, 5];
const match = (n) => ({ section: `s${n}` });
const defOf = (n) => `Package/${JSON.stringify(match(n))}`;
const RULES = { Note: { Package: ({ leads }) => leads.map(match) } };

/** A session with a note that leads to these numbers. */
async function openLed(...leads) {
  const { session, core } = await openFake(schema);
  session.collection("Note", {}, { keep: "forever" });
  core.put("Note", { name: "n", leads });
  core.becomeReady("Note");
  const begun = () => NUMBERS.filter((n) => session.subscriptions().includes(defOf(n)));
  const lead = async (...numbers) => {
    core.put("Note", { name: "n", leads: numbers });
    await settled();
    return begun();
  };
  return { session, core, begun, lead };
}

test("r22_a_scope_ends_what_it_holds_and_nothing_else", async () => {
  const { session, begun, lead } = await openLed(0, 1);
  const seen = [];
  const stopList = session.live("Package", match(3), (docs, { error }) => seen.push(error?.code));
  session.collection("Package", match(4), { keep: "forever" });
  const stop = session.scope(RULES);
  await settled();
  assert.deepEqual(begun(), [0, 1, 3, 4]);
  assert.deepEqual(await lead(1, 3, 4), [1, 3, 4], "the one that it began has ended");
  assert.deepEqual(await lead(1), [1, 3, 4], "of those that it held, too, one is listened to, and one is kept for ever");
  assert.deepEqual([seen.at(-1), session.status.faults], [undefined, {}]);
  stopList();
  assert.deepEqual(begun(), [1, 3, 4], "it stays for its time");
  assert.deepEqual(await lead(3), [3, 4]);
  assert.deepEqual(await lead(), [4], "nobody listens any more");
  await lead(5);
  stop();
  await settled();
  assert.deepEqual(begun(), [4, 5], "a stop ends none");
});

test("r22_an_exclusive_scope_ends_all_others_of_its_classes", async () => {
  const { session, begun, lead } = await openLed(0);
  session.live("Package", match(3), () => {});
  session.collection("Package", match(4), { keep: "forever" });
  session.scope(RULES, { exclusive: true });
  await settled();
  assert.deepEqual(begun(), [0]);
  assert.deepEqual(await lead(3), [3], "the one that is listened to is back");
});

/** One history against the plain rule: a number is subscribed to from the first who wants it; it ends with the scope's last wish if nobody else has one. */
async function play(seed) {
  const below = randomFrom(seed);
  const pick = () => NUMBERS[below(NUMBERS.length)];
  const { session, begun, lead } = await openLed();
  const [subscribed, kept, stops] = [new Set(), new Set(), []];
  const listens = (n) => stops.some((one) => one.n === n);
  let [leads, stop] = [new Set(), undefined];
  const follow = (next) => {
    for (const n of next) subscribed.add(n);
    for (const n of leads) if (!next.has(n) && !kept.has(n) && !listens(n)) subscribed.delete(n);
    leads = next;
  };
  const steps = {
    listen() {
      const n = pick();
      subscribed.add(n);
      stops.push({ n, stop: session.live("Package", match(n), () => {}) });
    },
    leave() {
      stops.splice(below(stops.length || 1), 1)[0]?.stop();
    },
    keep() {
      const n = pick();
      kept.add(n);
      subscribed.add(n);
      session.collection("Package", match(n), { keep: "forever" });
    },
    async lead() {
      const next = NUMBERS.filter(() => below(2));
      await lead(...next);
      if (stop) follow(new Set(next));
    },
    async scope() {
      if (stop) {
        stop();
        [stop, leads] = [undefined, new Set()];
        return;
      }
      stop = session.scope(RULES);
      await settled();
      const [note] = await session.query("Note").docs();
      follow(new Set(note.leads));
    },
  };
  for (let step = 0; step < 40; step++) {
    const name = Object.keys(steps)[below(5)];
    await steps[name]();
    await settled();
    assert.deepEqual(begun(), [...subscribed].sort(), `ESCALE_SEED=${seed}, step ${step}: ${name}`);
  }
  await session.close();
}

test("r22_a_scope_and_others_hold_the_same_lists", { timeout: 600_000 }, async () => {
  const seed = process.env.ESCALE_SEED;
  const histories = seed === undefined ? count("SCOPES", 40) : 1;
  const first = startSeed();
  for (let history = 0; history < histories; history++) await play(first + history);
});
