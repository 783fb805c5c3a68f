// The reference server keeps the promises about accounts, and the kit finds each planted fault by the check that names it.
import assert from "node:assert/strict";
import { test } from "node:test";

import { CHECKS, linesOf, optionsOf, runChecks } from "../../conformance/src/index.mjs";
import { ACCOUNT_FAULTS, plantInAccounts } from "./support/faults-of-accounts.mjs";

const isFull = process.env.CONFORMANCE === "full";

/** The failures of checks of accounts. */
async function failures(name, only) {
  const { options, stop } = await plantInAccounts(name);
  try {
    const results = await runChecks(CHECKS, optionsOf({ ...options, quick: !isFull || name !== undefined, only }));
    assert.ok(results.some(({ outcome }) => outcome !== "skipped"), "a check has run");
    return results.filter(({ outcome }) => outcome === "failed");
  } finally {
    await stop();
  }
}

for (const form of ["json", "msgpack", "both"]) {
  test(`the reference server keeps the promises about accounts: ${form}`, async () => {
    const { options, stop } = await plantInAccounts();
    try {
      const all = optionsOf({ ...options, form, quick: !isFull, only: "accounts" });
      const results = await runChecks(CHECKS, all);
      const failed = results.filter(({ outcome }) => outcome === "failed");
      assert.equal(failed.length, 0, failed.flatMap((result) => linesOf(result, { isVerbose: true })).join("\n"));
      const passed = results.filter(({ outcome }) => outcome === "passed").map(({ check }) => check.id);
      const wanted = CHECKS.filter(({ id, isSlow }) => id.startsWith("accounts.") && (isFull || !isSlow)).map(({ id }) => id);
      assert.deepEqual(wanted.filter((id) => !passed.includes(id)), [], "each check has run");
    } finally {
      await stop();
    }
  });
}

for (const [name, [id]] of Object.entries(ACCOUNT_FAULTS)) {
  test(`the kit finds a planted fault of accounts: ${name}`, async () => {
    const found = (await failures(name, id)).map(({ check }) => check.id);
    assert.ok(found.includes(id), `${id} does not fail: ${found.join(", ") || "nothing does"}`);
  });
}
