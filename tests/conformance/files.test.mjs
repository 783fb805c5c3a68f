// The reference server keeps the promises about files, and the kit finds each planted fault by the check that names it.
// A server without files skips all these checks.
import assert from "node:assert/strict";
import { test } from "node:test";

import { CHECKS, linesOf, optionsOf, runChecks } from "../../conformance/src/index.mjs";
import { plant } from "./support/faults.mjs";
import { FILE_FAULTS, plantInFiles } from "./support/faults-of-files.mjs";
import { launch } from "./support/launch.mjs";

const IDS = CHECKS.map(({ id }) => id).filter((id) => id.startsWith("files."));

/** The results of a run of the kit, and the failures as text. */
async function resultsOf({ options, stop }, more) {
  try {
    const results = await runChecks(CHECKS, optionsOf({ ...options, quick: true, ...more }));
    const failed = results.filter(({ outcome }) => outcome === "failed");
    return { results, failed: failed.map(({ check }) => check.id), text: failed.flatMap((result) => linesOf(result, { isVerbose: true })).join("\n") };
  } finally {
    await stop();
  }
}
const idsOf = (results, outcome) => results.filter((result) => result.outcome === outcome).map(({ check }) => check.id);

for (const form of ["json", "msgpack", "both"]) {
  test(`the reference server keeps the promises about files: ${form}`, async () => {
    const launched = await launch("reference", { run: "files", hasTokens: true });
    const { results, failed, text } = await resultsOf(launched, { form, only: "files" });
    assert.deepEqual(failed, [], text);
    assert.deepEqual(idsOf(results, "passed").filter((id) => IDS.includes(id)), IDS, "each check has run");
  });
}

test("the proxy alone changes nothing", async () => {
  const { failed, text } = await resultsOf(await plantInFiles(), { only: "files,http" });
  assert.deepEqual(failed, [], text);
});

test("a server without files skips the checks of files", async () => {
  const { results, failed, text } = await resultsOf(await plant(), { only: "files,http.files" });
  assert.deepEqual(failed, [], text);
  assert.deepEqual(idsOf(results, "skipped").filter((id) => IDS.includes(id)), IDS);
  assert.ok(idsOf(results, "passed").includes("http.files"));
});

test("each check of files has a planted fault", () => {
  const found = new Set(Object.values(FILE_FAULTS).map(([id]) => id));
  assert.deepEqual(IDS.filter((id) => !found.has(id)), []);
});

for (const [name, [id, , { only = id } = {}]] of Object.entries(FILE_FAULTS)) {
  test(`the kit finds a planted fault of files: ${name}`, async () => {
    const { failed, text } = await resultsOf(await plantInFiles(name), { only });
    assert.ok(failed.includes(id), `${id} does not fail: ${failed.join(", ") || "nothing does"}\n${text}`);
  });
}
