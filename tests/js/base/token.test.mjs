// The function of the application that gives the token: it may throw, reject, never answer, or give one that cannot be sent.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { Asker } from "../../../js/dist/session/token.js";
import { openFake } from "../fake-core.mjs";

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** An asker of this function, its failures, and its calls. */
function setUp(t, source) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const failures = [];
  const calls = [];
  const asker = new Asker((given) => (calls.push(given), source(calls.length)), (error) => error && failures.push(error));
  const pass = async (ms) => {
    t.mock.timers.tick(ms);
    await turn();
  };
  return { asker, failures, calls, pass };
}

const WAYS = {
  throws: () => {
    throw new Error("not now");
  },
  rejects: () => Promise.reject(new Error("not now")),
};

for (const [way, fail] of Object.entries(WAYS)) {
  test(`one that ${way} once is asked again, and the status says why`, async (t) => {
    const { asker, failures, calls, pass } = setUp(t, (n) => (n === 1 ? fail() : "good"));
    const token = asker.ask(false);
    await turn();
    assert.deepEqual([failures[0].code, failures[0].cause.message], ["unauthorized", "not now"]);
    await pass(999);
    assert.equal(calls.length, 1);
    await pass(1);
    assert.equal(await token, "good");
    await pass(3_600_000);
    assert.equal(calls.length, 2, "and not again");
  });

  test(`one that ${way} always is asked at growing intervals`, async (t) => {
    const { asker, calls, pass } = setUp(t, fail);
    asker.ask(false);
    await turn();
    for (const [ms, count] of [[1_000, 2], [1_999, 2], [1, 3], [4_000, 4], [8_000, 5], [16_000, 6], [32_000, 7], [63_999, 7], [1, 8]]) {
      await pass(ms);
      assert.equal(calls.length, count);
    }
    asker.end();
    await pass(3_600_000);
    assert.equal(calls.length, 8, "not after the end of the session");
  });
}

test("one that hangs is named after ten seconds, asked again, and its late answer counts", async (t) => {
  const answers = [];
  const { asker, failures, calls, pass } = setUp(t, () => new Promise((resolve) => answers.push(resolve)));
  const token = asker.ask(false);
  await pass(9_999);
  assert.deepEqual([failures.length, calls.length], [0, 1]);
  await pass(1);
  assert.deepEqual([failures[0].code, failures[0].cause.message], ["unauthorized", "no answer in 10 s"]);
  await pass(1_000);
  assert.equal(calls.length, 2);
  answers[0]("late");
  assert.equal(await token, "late");
  answers[1]("later");
  await pass(3_600_000);
  assert.deepEqual([failures.length, calls.length], [1, 2]);
});

test("a reason to ask, as the network or the page that is back, ends the pause", async (t) => {
  const { asker, calls, pass } = setUp(t, (n) => (n < 3 ? WAYS.rejects() : "good"));
  const token = asker.ask(false);
  await turn();
  const again = asker.ask(true);
  assert.equal(again, token, "it is the same question");
  await pass(0);
  assert.equal(calls.length, 2);
  asker.ask(true);
  assert.equal(await token, "good");
  asker.ask(true);
  assert.equal(calls.length, 4, "another question");
});

test("none at all is an answer: the session is paused, and asks no more", async (t) => {
  const { asker, failures, calls, pass } = setUp(t, () => undefined);
  assert.equal(await asker.ask(false), undefined);
  await pass(3_600_000);
  assert.deepEqual([failures.length, calls.length], [0, 1]);
});

test("a token that no header can carry is asked for once, and named", async (t) => {
  for (const bad of ["a\nb", "a b", "\u00e9", "a\u0000"]) {
    const { asker, failures, calls, pass } = setUp(t, (n) => (n === 1 ? bad : "good"));
    const token = asker.ask(false);
    await turn();
    await pass(3_600_000);
    assert.deepEqual([failures.length, calls.length, failures[0].cause.code], [1, 1, "bad_option"]);
    asker.ask(true);
    assert.equal(await token, "good");
    t.mock.timers.reset();
  }
  const schema = defineSchema({ Note: { key: ["id"] } });
  await assert.rejects(openFake(schema, { token: "a\nb" }), { code: "bad_option", message: /token/ });
});
