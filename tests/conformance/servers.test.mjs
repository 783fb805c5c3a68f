// The kit passes on the reference server, and on both servers in examples/servers.
//
// `CONFORMANCE=full`, as `make conformance` sets it, runs every check with every hook, with and without tokens, and on
// the server in Python, too. `ESCALE_SEED` repeats the choices of a run; `HISTORIES` sets the number of histories.
import assert from "node:assert/strict";
import { test } from "node:test";

import { CHECKS, count, lastLines, linesOf, optionsOf, runChecks } from "../../conformance/src/index.mjs";
import { startSeed } from "../../testkit/effort.mjs";
import { launch } from "./support/launch.mjs";

const isFull = process.env.CONFORMANCE === "full";
const SEED = startSeed();

async function runs(kind, more = {}) {
  const run = `${kind}${Object.keys(more).join("")}${SEED}`;
  const { options, stop } = await launch(kind, { run, ...more });
  try {
    const histories = process.env.HISTORIES || (isFull ? "10" : "1");
    // A busy machine is no fault of a server.
    const all = optionsOf({ ...options, slack: "20000", quick: !isFull, seed: String(SEED), histories });
    const results = await runChecks(CHECKS, all);
    const failed = results.filter(({ outcome }) => outcome === "failed");
    const skipped = results.filter(({ outcome }) => outcome === "skipped");
    for (const { check, reason } of skipped) console.log(`# skipped ${check.id}: ${reason}`);
    console.log(`# ${kind} ${Object.keys(more).join(" ")}: ${lastLines(results, all).at(-1)}, ESCALE_SEED=${SEED}`);
    assert.equal(failed.length, 0, failed.flatMap((result) => linesOf(result, { isVerbose: true })).join("\n"));
    return { ...count(results), skipped: skipped.map(({ check, reason }) => [check.id, reason]) };
  } finally {
    await stop();
  }
}

test("the reference server passes the kit", async () => {
  await runs("reference");
});

test("the server in Node passes the kit", async () => {
  await runs("node");
});

if (isFull) {
  test("the server in Python passes the kit", () => runs("python"));
  for (const kind of ["reference", "node", "python"]) {
    test(`the ${kind} server passes the kit with tokens`, () => runs(kind, { hasTokens: true, ...(kind === "reference" && { hasAccounts: true }) }));
  }
  test("the server in Node passes the kit on PostgreSQL", () => runs("postgresql"));
  test("two instances of the server in Node pass the kit on PostgreSQL", () => runs("postgresql", { hasSecond: true }));
  test("two instances of the reference server pass the kit", () => runs("reference", { hasSecond: true }));
}
