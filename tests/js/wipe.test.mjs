// `wipe` without a session: its call of the core, and its refusals.
import assert from "node:assert/strict";
import { test } from "node:test";

import { EscaleError } from "../../js/dist/base/errors.js";
import { wipeWith } from "../../js/dist/session/wipe.js";

/** Wipes on a core that records the request, and answers by `answer`. */
async function wipeFake(options, answer = async () => {}) {
  const asked = [];
  const glue = { wipe: (...owner) => (asked.push(owner), answer()) };
  const given = await wipeWith({ take: async () => ({ glue, giveBack() {} }) }, options);
  return { asked, given };
}

test("the core is told whose store it is, and of no account as the empty one", async () => {
  assert.deepEqual(await wipeFake({ org: "demo", account: "me" }), { asked: [["demo", "me"]], given: undefined });
  assert.deepEqual((await wipeFake({ org: "demo" })).asked, [["demo", ""]]);
  assert.deepEqual((await wipeFake({ org: "demo", account: undefined })).asked, [["demo", ""]]);
});

const REFUSED = {
  "no object": [undefined, /object/],
  "no org": [{}, /org/],
  "an empty org": [{ org: "" }, /org/],
  "an account that is no string": [{ org: "demo", account: 1 }, /account/],
  "an option of open": [{ org: "demo", passphrase: "x" }, /passphrase/],
};
for (const [what, [options, message]] of Object.entries(REFUSED)) {
  test(`wipe refuses ${what}, and starts nothing`, async () => {
    const take = () => assert.fail("the wasm was started");
    await assert.rejects(wipeWith({ take }, options), { code: "bad_option", message });
  });
}

test("an error of the core keeps its name", async () => {
  const inUse = { code: "store_in_use", kind: "C", retryable: true, message: "store_in_use: x", cure: "Close it." };
  await assert.rejects(wipeFake({ org: "demo" }, () => Promise.reject(inUse)), (error) => {
    assert.ok(error instanceof EscaleError);
    assert.deepEqual([error.code, error.retryable, error.cure], ["store_in_use", true, "Close it."]);
    return true;
  });
});
