// A session's requests to the browser's storage: every answer has a name, and a browser without such a storage does no
// harm.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake } from "../fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"] } });
const navigator = Object.getOwnPropertyDescriptor(globalThis, "navigator");

function browser(storage) {
  Object.defineProperty(globalThis, "navigator", { value: { storage }, configurable: true });
}

afterEach(() => {
  if (navigator) Object.defineProperty(globalThis, "navigator", navigator);
  else delete globalThis.navigator;
});

test("the browser's answer has a name", async () => {
  const { session } = await openFake(schema);
  for (const [persists, name] of [[true, "granted"], [false, "denied"]]) {
    browser({ persist: async () => persists, persisted: async () => persists, estimate: async () => ({ usage: 7, quota: 70 }) });
    assert.equal(await session.requestPersistence(), name);
    assert.deepEqual(await session.usage(), { used: 7, quota: 70, persistence: name });
  }
});

test("a browser that lacks it, or that throws, is told as unsupported", async () => {
  const { session } = await openFake(schema);
  const refuse = async () => {
    throw new TypeError("not here");
  };
  for (const storage of [undefined, {}, { persist: refuse, persisted: refuse, estimate: refuse }, { estimate: async () => ({}) }]) {
    browser(storage);
    assert.equal(await session.requestPersistence(), "unsupported");
    assert.deepEqual(await session.usage(), { used: null, quota: null, persistence: "unsupported" });
  }
});

test("an incognito session asks for nothing, a closed one says that it is", async () => {
  let asked = 0;
  browser({ persist: async () => ++asked > 0 });
  const { session } = await openFake(schema, { mode: "incognito", passphrase: undefined });
  assert.equal(await session.requestPersistence(), "unsupported");
  assert.equal(asked, 0);
  await session.close();
  await assert.rejects(session.requestPersistence(), { code: "closed" });
  await assert.rejects(session.usage(), { code: "closed" });
});
