// The wasm stops in the middle of a call, at one call after the other. Another instance takes over. Nothing saved is
// lost, nothing is executed twice, and interrupted calls fail with a named error.
//
// Applications must also be allowed to call a session from its own callbacks, a thousand times at once, and after its
// end.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { openBrowser } from "../support/browser.mjs";
import { startSite } from "../support/site.mjs";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const SITES = 24;

async function setUp(t) {
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  await page.evaluate(async () => {
    const { makePageServer } = await import("/page-server.js");
    const { open, defineSchema } = window.page;
    const schema = defineSchema({ Note: { key: ["id"], properties: { text: "string" } } });
    window.begin = async (org, options = {}) => {
      const server = makePageServer();
      const session = await open({ org, schema, server: server.adapter, key: new Uint8Array(32), ...options });
      return { server, session };
    };
    /** Makes the wasm's nth call of the clock throw, which none of its code expects. */
    window.failAt = (call) => {
      const real = Date.now;
      let calls = 0;
      const state = { fired: false, end: () => (Date.now = real) };
      Date.now = () => {
        if (++calls === call) {
          state.fired = true;
          throw new Error("injected by the test");
        }
        return real.call(Date);
      };
      return state;
    };
    window.addEventListener("error", (event) => event.preventDefault());
  });
  return { page };
}

test("an instance that dies at any call is replaced, and nothing saved is lost or done twice", { timeout: 120_000 }, async (t) => {
  const { page } = await setUp(t);
  const outcomes = await page.evaluate(async (sites) => {
    const outcomes = [];
    const heardOf = (session, server) =>
      new Promise((resolve) => {
        const stop = session.live("Note", {}, (docs) => {
          if (docs.length !== server.notes().length) return;
          queueMicrotask(() => stop());
          resolve(docs.map(({ id }) => id));
        });
      });
    for (let site = 1; site <= sites; site++) {
      const { server, session } = await window.begin(`panic${site}`);
      const seen = new Set();
      session.live("Note", {}, (docs) => docs.forEach(({ id }) => seen.add(id)));
      const fault = window.failAt(site);
      const operations = [];
      const codes = new Set();
      for (let n = 0; n < 3; n++) {
        try {
          const operation = session.put("Note", { id: `n${n}`, text: "x" });
          const one = { id: operation.id, saved: null, accepted: null };
          operations.push(one);
          const over = Promise.allSettled([
            operation.saved.then(() => (one.saved = true), (error) => (codes.add(error.code), (one.saved = false))),
            operation.accepted.then(() => (one.accepted = true), (error) => (codes.add(error.code), (one.accepted = error.code))),
          ]);
          one.over = over;
          await Promise.race([over, new Promise((resolve) => setTimeout(resolve, 20))]);
        } catch (error) {
          codes.add(error.code ?? `${error}`);
        }
      }
      // Wherever the fault occurred, a last operation succeeds.
      let last;
      for (let attempt = 0; attempt < 100 && !last; attempt++) {
        try {
          last = session.put("Note", { id: "last", text: "x" });
          await last.accepted;
        } catch (error) {
          codes.add(error.code ?? `${error}`);
          last = undefined;
          if (session.status.phase === "closed") break;
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
      fault.end();
      await Promise.all(operations.map(({ over }) => over));
      const lost = operations.filter(({ id, saved }) => saved && !server.executed.includes(id));
      const twice = server.executed.length - new Set(server.executed).size;
      // The earlier listener receives everything in the end.
      const held = last && (await heardOf(session, server));
      outcomes.push({ site, fired: fault.fired, lost: lost.length, twice, codes: [...codes], phase: session.status.phase, held, notes: server.notes() });
      await session.close();
    }
    return outcomes;
  }, SITES);
  const fired = outcomes.filter((outcome) => outcome.fired);
  assert.ok(fired.length >= SITES / 2, `${fired.length} of ${SITES} faults happened`);
  for (const outcome of outcomes) {
    const { site, lost, twice, codes, phase, held, notes } = outcome;
    assert.deepEqual({ site, lost, twice }, { site, lost: 0, twice: 0 }, JSON.stringify(outcome));
    assert.notEqual(phase, "closed", JSON.stringify(outcome));
    assert.deepEqual(codes.filter((code) => code !== "panicked" && code !== "forgotten"), [], JSON.stringify(outcome));
    assert.deepEqual([...held].sort(), notes, JSON.stringify(outcome));
  }
  console.log(`# ${fired.length} deaths of the wasm, 0 lost, 0 twice`);
});

test("a session opened by a passphrase lives on without it; a second death soon after ends it by name", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  const result = await page.evaluate(async () => {
    const { session } = await window.begin("twice", { key: undefined, passphrase: "correct horse" });
    await session.collection("Note", {}).whenReady();
    await session.put("Note", { id: "a", text: "x" }).accepted;
    const die = async () => {
      const fault = window.failAt(1);
      try {
        session.put("Note", { id: "b", text: "x" });
      } catch (error) {
        return { code: error.code, message: error.message };
      } finally {
        fault.end();
      }
    };
    const first = await die();
    await session.flush();
    const note = await session.get("Note", ["a"]);
    const ended = new Promise((resolve) => session.status.subscribe((status) => status.phase === "closed" && resolve(status.error.code)));
    const second = await die();
    return { first, note, second, ended: await ended };
  });
  const { first, second, ...rest } = result;
  assert.deepEqual([first.code, second.code], ["panicked", "panicked"]);
  assert.deepEqual(rest, { note: { id: "a", text: "x" }, ended: "panicked" });
  // The message has the numbers of the functions on the stack, and the last build knows their names.
  const [, numbers] = /^the wasm stopped on a bug \(injected by the test: ([\d ]+)\)$/.exec(first.message);
  const named = execFileSync(process.execPath, ["scripts/wasm/trap-names.mjs", ...numbers.split(" ")], { cwd: ROOT, encoding: "utf8" });
  assert.match(named, /\bescale::web::platform::clock::/);
  assert.match(named, /\bescale::web::bindings::/);
  assert.doesNotMatch(named, /no such function/);
});

test("calls from a callback, a thousand at once and after the end give named errors at most", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  const result = await page.evaluate(async () => {
    const { server, session } = await window.begin("calls");
    const codes = {};
    const note = (error) => {
      const code = error?.code ?? `${error}`;
      codes[code] = (codes[code] ?? 0) + 1;
    };
    const everything = [
      () => session.subscriptions(),
      () => session.pending(),
      () => session.lostByServer(),
      () => session.live("Note", {}, () => {})(),
      () => session.put("Note", { id: `at once ${Math.random()}`, text: "x" }).accepted,
      () => session.get("Note", ["a"]),
      () => session.query("Note").docs(),
      () => session.history("Note", ["a"]),
      () => session.journal.sweep({ count: 4 }),
      () => session.inspect({ limit: 1 }),
      () => session.flush(),
      () => session.usage(),
      () => session.setMode("synced"),
      () => session.collection("Note", {}).docs,
      () => session.refused.value,
    ];
    const all = (times) => {
      const calls = [];
      for (let n = 0; n < times; n++) {
        try {
          calls.push(Promise.resolve(everything[n % everything.length]()).catch(note));
        } catch (error) {
          note(error);
        }
      }
      return Promise.all(calls);
    };
    // From callbacks of every kind, once each.
    const inside = [];
    let [fromLive, fromStatus, fromRefused] = [true, true, true];
    session.live("Note", {}, () => fromLive && ((fromLive = false), inside.push(all(everything.length))));
    session.status.subscribe(() => fromStatus && ((fromStatus = false), inside.push(all(everything.length))));
    session.refused.subscribe(() => fromRefused && ((fromRefused = false), inside.push(all(everything.length))));
    await session.put("Note", { id: "a", text: "x" }).accepted;
    await Promise.all(inside);
    await all(1_000);
    const open = { ...codes };
    // While it closes, and after.
    const last = all(everything.length);
    const closed = session.close();
    await Promise.all([last, closed, all(everything.length)]);
    await all(1_000);
    await Promise.all([session.close(), session.lock()]);
    return { open, inside: inside.length, codes: Object.keys(codes), executed: server.executed.length };
  });
  assert.deepEqual(result.open, {}, "nothing fails while it is open");
  assert.equal(result.inside, 3);
  assert.deepEqual(result.codes, ["closed"], "after the end every call says so");
  assert.ok(result.executed > 60);
});
