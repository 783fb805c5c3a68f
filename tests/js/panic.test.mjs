// An instance of the wasm that dies: another one takes over, and the objects that the application holds keep working.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openWith } from "../../js/dist/session/open.js";
import { defineSchema } from "../../js/dist/schema/schema.js";
import { FakeCore, fault, recorder, settled } from "./fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"] } });

/** Instances one after the other; `prepare` fills each core before the session sees it. */
function instances(prepare = () => {}) {
  const cores = [];
  const deaths = [];
  /** The instances that were given back. */
  const back = [];
  const take = async () => {
    let isDead = false;
    let death;
    const listeners = new Set();
    const die = (how) => queueMicrotask(() => [...listeners].forEach((listener) => listener((death = how))));
    const onDeath = (listener) => {
      if (death) queueMicrotask(() => listener(death));
      else listeners.add(listener);
      return () => listeners.delete(listener);
    };
    const glue = {
      onDeath,
      isDead: () => isDead,
      async open(options, host) {
        // Copied now, because X is overwritten when it is no longer needed.
        const core = new FakeCore({ ...options, derived: options.derived?.slice() }, host);
        host.derived?.(new Uint8Array(32).fill(7));
        deaths.push((error = new WebAssembly.RuntimeError("unreachable")) => {
          isDead = true;
          die({ error, released: Promise.resolve() });
        });
        cores.push(core);
        await prepare(core, cores.length);
        return core;
      },
    };
    return { glue, giveBack: () => back.push(glue) };
  };
  const given = { org: "demo", schema, server: "http://localhost:7700", passphrase: "secret" };
  return { cores, deaths, back, open: (options = {}) => openWith({ take }, { ...given, ...options }) };
}

test("subscriptions and listeners live on, with new documents", async () => {
  const { cores, deaths, open } = instances((core) => core.put("Package", { name: "a" }));
  const session = await open();
  const { callback, calls } = recorder();
  session.live("Package", {}, callback);
  const [[before]] = await calls(1);
  assert.equal(session.meta(before).v, 1_001);
  deaths[0]();
  const [[after]] = await calls(2);
  assert.deepEqual(after, before);
  assert.equal(session.meta(before), undefined, "of an instance that is no more");
  assert.equal(session.meta(after).v, 1_001);
  assert.equal(cores[1].options.passphrase, undefined, "the passphrase is not kept");
  assert.deepEqual(cores[1].options.derived, new Uint8Array(32).fill(7));
  cores[1].put("Package", { name: "b" });
  assert.equal((await calls(3))[0].length, 2);
  await session.close();
});

test("a saved operation is accepted in the end, one that was not saved fails by name", async () => {
  let saved, refused;
  const { cores, deaths, open } = instances((core, number) => {
    if (number !== 2) return;
    // The journal of the device.
    core.resume(saved.id);
    core.resume(refused.id, fault("forbidden"));
  });
  const session = await open();
  saved = session.put("Package", { name: "a" });
  const over = session.put("Package", { name: "b" });
  const unsaved = session.put("Package", { name: "c" });
  refused = session.put("Package", { name: "d" });
  for (const { id } of [saved, over, refused]) cores[0].save(id);
  deaths[0]();
  await assert.rejects(unsaved.saved, { code: "panicked" });
  await assert.rejects(unsaved.accepted, { code: "panicked" });
  await assert.rejects(over.accepted, { code: "forgotten" });
  await assert.rejects(refused.accepted, { code: "forbidden" }, "the news of it was lost");
  assert.equal(await saved.saved, "device");
  cores[1].accept(saved.id, 42);
  assert.deepEqual(await saved.accepted, { v: 42 });
});

test("a call that is cut short is asked again, or fails by name", async () => {
  const { cores, deaths, open } = instances((core) => core.put("Package", { name: "a" }));
  const session = await open();
  cores[0].isHolding = true;
  const got = session.get("Package", ["a"]);
  await settled();
  cores[0].changePassphrase = () => new Promise(() => {});
  const changed = session.changePassphrase("secret", "another");
  deaths[0]();
  await assert.rejects(changed, { code: "panicked" });
  assert.equal((await got).name, "a");
});

test("between two instances every call has a named error, or waits", async () => {
  let letOpen;
  const opening = new Promise((resolve) => (letOpen = resolve));
  const { deaths, open } = instances((_, number) => (number === 2 ? opening : undefined));
  const session = await open();
  deaths[0]();
  await settled();
  assert.throws(() => session.put("Package", { name: "a" }), { code: "panicked" });
  assert.throws(() => session.subscriptions(), { code: "panicked" });
  assert.throws(() => session.live("Package", {}, () => {}), { code: "panicked" });
  const flushed = session.flush();
  const got = session.get("Package", ["a"]);
  letOpen();
  await flushed;
  assert.equal(await got, undefined);
  assert.ok(Array.isArray(session.subscriptions()));
});

test("a wipe waits for the next instance, and asks that one for what would be lost", async () => {
  const { cores, deaths, open } = instances((core, number) => number === 2 && core.resume("op-of-the-journal"));
  const session = await open();
  deaths[0]();
  await settled();
  await assert.rejects(session.wipe(), { code: "not_saved" });
  assert.equal(session.status.phase === "closed", false);
  cores[1].accept("op-of-the-journal", 42);
  await session.wipe();
  assert.deepEqual([session.status.reason, cores[1].called("wiped")], ["wiped", 1]);
});

test("a trap that a call meets is a death as well, told or not", async () => {
  const { cores, deaths, open } = instances();
  const session = await open();
  cores[0].subscriptions = () => {
    deaths[0]();
    throw new WebAssembly.RuntimeError("unreachable");
  };
  assert.throws(() => session.subscriptions(), { code: "panicked" });
  assert.throws(() => session.subscriptions(), { code: "panicked" }, "and does not reach the dead one");
  await session.flush();
  assert.deepEqual(session.subscriptions(), []);
});

test("a second death soon after ends the session by name", async () => {
  const { deaths, open } = instances();
  const session = await open();
  deaths[0]();
  await settled();
  const operation = session.put("Package", { name: "a" });
  deaths[1]();
  await settled();
  assert.deepEqual([session.status.phase, session.status.error.code], ["closed", "panicked"]);
  await assert.rejects(operation.accepted, { code: "closed" });
  await assert.rejects(operation.saved, { code: "closed" });
  assert.throws(() => session.put("Package", { name: "b" }), { code: "closed" });
});

test("where no other instance can be had, the session ends by name", async () => {
  const { deaths, open } = instances((_, number) => {
    if (number === 2) throw { code: "store_in_use", kind: "C", retryable: true, message: "x", cure: "y" };
  });
  const session = await open();
  deaths[0]();
  await settled();
  assert.equal(session.status.phase, "closed");
  assert.equal(session.status.error.code, "panicked");
  assert.equal(session.status.error.cause.code, "store_in_use");
});

test("closing while an instance dies closes, and opens nothing", async () => {
  const { cores, deaths, open } = instances();
  const session = await open();
  cores[0].end = () => new Promise(() => {});
  const closed = session.close();
  deaths[0]();
  await closed;
  await settled();
  assert.equal(cores.length, 1);
  assert.equal(session.status.phase, "closed");
});

test("a core is given back once nothing of it is under way", async () => {
  for (const isHeld of [true, false]) {
    let end;
    const freed = [];
    const { open } = instances((core) => {
      core.flush = () => (isHeld ? new Promise((resolve) => (end = resolve)) : Promise.resolve());
      core.free = () => freed.push("freed");
    });
    const session = await open();
    const flushed = session.flush();
    await session.close();
    assert.deepEqual(freed, isHeld ? [] : ["freed"], "wasm-bindgen throws where a call holds it");
    end?.();
    await flushed;
    await settled();
    assert.deepEqual(freed, ["freed"]);
  }
});

test("each instance is given back: the dead one at its death, the other one with the session", async () => {
  const { deaths, back, open } = instances();
  const session = await open();
  deaths[0]();
  await settled();
  assert.equal(back.length, 1);
  await session.close();
  assert.equal(back.length, 2);
  assert.notEqual(back[0], back[1]);
});

test("what is under way may end after the session has: its instance is given back then", async () => {
  let end;
  const { back, open } = instances((core) => (core.flush = () => new Promise((resolve) => (end = resolve))));
  const session = await open();
  const flushed = session.flush();
  await session.close();
  assert.equal(back.length, 0);
  end();
  await flushed;
  await settled();
  assert.equal(back.length, 1);
});

test("an opening that fails gives its instance back", async () => {
  const { back, open } = instances(() => Promise.reject({ code: "wrong_passphrase", kind: "A", retryable: false, message: "x", cure: "y" }));
  await assert.rejects(open(), { code: "wrong_passphrase" });
  assert.equal(back.length, 1);
});
