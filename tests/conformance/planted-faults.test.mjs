// Each planted fault is found by the check that names it, and without a fault nothing is found.
//
// With `CONFORMANCE=full` each fault meets every check. Otherwise it meets the one that has to find it;
// if that is a watch, it meets the checks of pulls.
import assert from "node:assert/strict";
import { test } from "node:test";

import { CHECKS, optionsOf, runChecks } from "../../conformance/src/index.mjs";
import { startSeed } from "../../testkit/effort.mjs";
import { FAULTS, plant } from "./support/faults.mjs";

const isFull = process.env.CONFORMANCE === "full";
const SEED = startSeed();

/** The ids of the checks that fail. */
async function failures(name, only, more) {
  const { options, stop } = await plant(name);
  try {
    // A busy machine is no fault. A planted one is not waited for.
    const all = optionsOf({ ...options, slack: name ? "0" : "20000", quick: true, seed: String(SEED), only: isFull ? undefined : only, ...more });
    const results = await runChecks(CHECKS, all);
    return results.filter(({ outcome }) => outcome === "failed").map(({ check }) => check.id);
  } finally {
    await stop();
  }
}

test("without a planted fault the kit finds nothing", async () => {
  console.log(`# ESCALE_SEED=${SEED}`);
  assert.deepEqual(await failures(undefined), []);
});

for (const [name, [id, , { only = id.startsWith("watch.") ? "pull,operations.in-order,watch" : id, ...more } = {}]] of Object.entries(FAULTS)) {
  test(`the kit finds a planted fault: ${name}`, async () => {
    const found = await failures(name, only, more);
    console.log(`# ${name}: ${found.join(" ")}`);
    assert.ok(found.includes(id), `${id} does not fail: ${found.join(", ") || "nothing does"}`);
  });
}
