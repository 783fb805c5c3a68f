// Half of a surrogate pair has no UTF-8 form. At the core it would become U+FFFD, and name another document.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { Supervisor } from "../../../js/dist/wasm/supervisor.js";
import { openFake } from "../fake-core.mjs";

const HALF = "a\uD800";
const schema = defineSchema({
  Package: { key: ["name"], collections: { section: { key: ["section"] } }, indexes: { title: "string" } },
});
const key = { code: "bad_key", message: /key\[0\]/ };
const value = (place) => ({ code: "bad_value", message: place });
const option = (place) => ({ code: "bad_option", message: place });

/** Each door through which text goes to the core, and the refusal there. */
const DOORS = {
  "get": [(session) => session.get("Package", [HALF]), key],
  "history": [(session) => session.history("Package", [HALF]), key],
  "live by key": [(session) => session.live("Package", { key: [HALF] }, () => {}), key],
  "live": [(session) => session.live("Package", { section: HALF }, () => {}), option(/section/)],
  "query.in": [(session) => session.query("Package").in({ section: HALF }), option(/section/)],
  "query.where": [(session) => session.query("Package").where("title", "==", HALF), option(/title/)],
  "query.where in": [(session) => session.query("Package").where("title", "in", [HALF]), option(/title/)],
  "query.after": [(session) => session.query("Package").after({ name: HALF }).docs(), key],
  "put, its key": [(session) => session.put("Package", { name: HALF }), value(/data\.name/)],
  "put, a value": [(session) => session.put("Package", { name: "a", list: [[HALF]] }), value(/data\.list/)],
  "put, a name": [(session) => session.put("Package", { name: "a", [HALF]: 1 }), value(/property/)],
  "put, a name further down": [(session) => session.put("Package", { name: "a", deep: [{ [HALF]: 1 }] }), value(/data\.deep/)],
  "patch, its key": [(session) => session.patch("Package", [HALF], { title: "t" }), key],
  "patch, a value": [(session) => session.patch("Package", ["a"], { title: HALF }), value(/changes\.title/)],
  "patch, a name": [(session) => session.patch("Package", ["a"], { [HALF]: 1 }), value(/changes/)],
  "patch, unset": [(session) => session.patch("Package", ["a"], {}, { unset: [HALF] }), value(/property/)],
  "delete": [(session) => session.delete("Package", [HALF]), key],
  "delete, after": [(session) => session.delete("Package", ["a"], { after: HALF }), option(/after/)],
  "batch": [(session) => session.batch((tx) => tx.delete("Package", [HALF])), key],
  "run, its name": [(session) => session.run(HALF, {}), { code: "bad_value" }],
  "run, its arguments": [(session) => session.run("echo", { text: HALF }), value(/args\.text/)],
  "run, touches": [(session) => session.run("echo", {}, { touches: [["Package", [HALF]]] }), key],
  "unsubscribe": [(session) => session.unsubscribe("Package", { section: HALF }), option(/section/)],
  "changePassphrase": [(session) => session.changePassphrase("old", HALF), option(/next/)],
};

for (const [door, [call, expected]] of Object.entries(DOORS)) {
  test(`half of a surrogate pair is refused by name and place: ${door}`, async () => {
    const { session, core } = await openFake(schema);
    const before = core.calls.length;
    await assert.rejects(async () => call(session), expected);
    const crossed = JSON.stringify(core.calls.slice(before));
    assert.ok(!crossed.includes("ud800"), crossed);
  });
}

for (const name of ["org", "account", "passphrase"]) {
  test(`half of a surrogate pair is refused by name and place: ${name} of open`, async () => {
    await assert.rejects(openFake(schema, { [name]: HALF }), option(new RegExp(name)));
  });
}

test("no call of the core takes half of a surrogate pair, whatever its caller has checked", () => {
  const called = [];
  const core = new Proxy({}, { get: (_, name) => (...values) => void called.push([name, values]) });
  const supervisor = new Supervisor({ core, isDead: () => false, giveBack: () => {} }, {});
  for (const name of ["def", "subscribe", "find", "query", "watch", "write", "amend", "discard", "history"]) {
    assert.throws(() => supervisor.core[name]("Package", HALF), { code: "bad_value", message: new RegExp(name) });
  }
  supervisor.core.find("Package", "\u{1F600}", 1);
  assert.equal(called.length, 1);
});
