// A session that works for long: the wasm's memory does not grow, and every handle that it takes is returned. A short
// form runs with the other tests; `make soak` is the long one.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count } from "../../../testkit/effort.mjs";
import { openBrowser } from "../support/browser.mjs";
import { Heap } from "../support/heap.mjs";
import { startSite } from "../support/site.mjs";

const ROUNDS = count("ROUNDS", 12);
const OPERATIONS = 100;
const OTHERS = 40;

test("memory stays flat and every handle is returned", { timeout: 60_000 + ROUNDS * 10_000 }, async (t) => {
  const began = performance.now();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  await page.evaluate(async () => {
    // Captures the package's instance, to look at its memory and at the JavaScript objects that it holds.
    const { instantiate } = WebAssembly;
    WebAssembly.instantiate = async (...values) => {
      const made = await instantiate(...values);
      window.exported = (made.instance ?? made).exports;
      return made;
    };
    window.figures = () => {
      const { memory, __wbindgen_externrefs: table } = window.exported;
      let handles = 0;
      // A released slot holds null.
      for (let i = 0; i < table.length; i++) if ((table.get(i) ?? null) !== null) handles++;
      return { bytes: memory.buffer.byteLength, handles };
    };
    const { makePageServer } = await import("/page-server.js");
    const { open, defineSchema } = window.page;
    const schema = defineSchema({ Note: { key: ["id"], properties: { text: "string" } } });
    const server = makePageServer();
    window.begin = () => open({ org: "soak", schema, server: server.adapter, key: new Uint8Array(32) });
    window.work = async (session, operations) => {
      const stop = session.live("Note", {}, () => {});
      const written = [];
      for (let n = 0; n < operations; n++) {
        written.push(session.put("Note", { id: `n${n % 20}`, text: `${n} `.repeat(50) }).accepted);
        if (n % 10 === 0) await Promise.all([session.get("Note", [`n${n % 20}`]), session.query("Note").docs()]);
      }
      await Promise.all(written);
      stop();
      await session.journal.sweep({ count: 1, apply: true });
      await session.flush();
      server.executed.length = 0;
    };
    // One session, with its instance of the wasm, stays open through all rounds: one-time allocations are then done.
    window.session = await window.begin();
    await window.work(window.session, 10);
  });
  const [rounds, heap] = [[], await Heap.of(page)];
  // Others come and go, on the same instance.
  const others = (count) =>
    page.evaluate(async (count) => {
      for (let n = 0; n < count; n++) {
        const session = await window.begin();
        await window.work(session, 10);
        await session.close();
      }
    }, count);
  await others(1);
  await heap.used();
  const idle = await page.evaluate(() => window.figures());
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push(
      await page.evaluate(async (operations) => {
        await window.work(window.session, operations);
        return window.figures();
      }, OPERATIONS),
    );
  }
  await others(OTHERS);
  // Collected objects have returned their handles.
  await heap.used();
  const end = await page.evaluate(() => window.figures());
  await page.evaluate(() => window.session.close());
  const [middle, last] = [rounds[Math.floor(ROUNDS / 2)], rounds.at(-1)];
  const mib = (bytes) => (bytes / 2 ** 20).toFixed(2);
  console.log(`# ${idle.handles} handles before, ${end.handles} after`);
  // Swept operations are forgotten, however many there were. Memory grows by pages of 64 KiB.
  const allowed = 4 * 65_536;
  assert.ok(last.bytes - middle.bytes <= allowed, `${middle.bytes} bytes half way, ${last.bytes} at the end`);
  // The first session's work in progress may take a few. One for each of the others would be a leak.
  assert.ok(end.handles < idle.handles + OTHERS / 2, `${idle.handles} handles before, ${end.handles} after`);
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  const done = `${ROUNDS * OPERATIONS} operations, ${mib(middle.bytes)} MiB half way, ${mib(last.bytes)} at the end`;
  console.log(`proof: soak | the wasm's memory stays flat, every handle is returned | ${done} | violations 0 | ${seconds} s`);
});
