// A view that learns of changes alone shows the same as a whole listing.
import assert from "node:assert/strict";
import { test } from "node:test";

import { patch } from "../../../js/dist/schema/order.js";
import { defineSchema } from "../../../js/dist/schema/schema.js";
import { count, startSeed } from "../../../testkit/effort.mjs";
import { randomFrom } from "../../e2e/support/in-page/random.js";
import { openFake, settled } from "../fake-core.mjs";

const SEED = startSeed();
const HISTORIES = count("VIEWS", 200);

test("a view shows what its def holds, whatever changes while it reads, and however long nobody looks", async (t) => {
  t.diagnostic(`ESCALE_SEED=${SEED}`);
  const schema = defineSchema({ Package: { key: ["name"] } });
  for (let history = 0; history < HISTORIES; history++) {
    const below = randomFrom(SEED + history);
    const { session, core } = await openFake(schema);
    const expected = new Map();
    let shown;
    let stop;
    const listen = () => (stop = session.live("Package", {}, (docs) => (shown = docs)));
    listen();
    for (let step = 0; step < 60; step++) {
      const name = `p${below(12)}`;
      switch (below(7)) {
        case 0:
        case 1: {
          const documents = Array.from({ length: 1 + below(3) }, (_, at) => ({ name: `p${below(4) * 3 + at}`, step }));
          for (const document of documents) expected.set(document.name, document);
          core.put("Package", ...documents);
          break;
        }
        case 2:
          if (expected.delete(name)) core.remove("Package", name);
          break;
        case 3:
          if (below(2)) core.isHolding = true;
          else core.release();
          break;
        case 4:
          stop();
          if (below(2)) listen();
          break;
        case 5:
          // A read that fails: the next change or listener makes up for it.
          core.readError = below(2) ? new Error("a device that does not read") : undefined;
          break;
        default:
          await settled();
      }
    }
    core.readError = undefined;
    core.release();
    stop();
    listen();
    await settled();
    core.becomeReady("Package");
    await settled();
    const sorted = [...expected.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    assert.deepEqual(shown, sorted, `ESCALE_SEED=${SEED + history}`);
    await session.close();
  }
});

test("a list is patched as if it was sorted again, by few changes and by many", (t) => {
  t.diagnostic(`ESCALE_SEED=${SEED}`);
  const below = randomFrom(SEED);
  const compare = (a, b) => a.key - b.key;
  for (let round = 0; round < 500; round++) {
    const byKey = new Map(Array.from({ length: below(80) }, () => ({ key: below(100) })).map((item) => [item.key, item]));
    const held = [...byKey.values()].sort(compare);
    const [removed, added] = [[], []];
    for (let change = below(below(2) ? 60 : 8); change > 0; change--) {
      const key = below(100);
      if (added.some((item) => item.key === key) || removed.some((item) => item.key === key)) continue;
      const old = byKey.get(key);
      if (old) removed.push(old);
      if (!old || below(3)) added.push({ key });
    }
    for (const { key } of removed) byKey.delete(key);
    for (const item of added) byKey.set(item.key, item);
    const patched = patch(held, removed, added.sort(compare), compare);
    const sorted = [...byKey.values()].sort(compare);
    assert.ok(patched.length === sorted.length && patched.every((item, at) => item === sorted[at]), `ESCALE_SEED=${SEED}`);
  }
});
