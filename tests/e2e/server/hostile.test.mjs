// Replies altered byte by byte reach the real wasm. Each time, the same instance keeps working. Once the server is
// honest again, the session shows the server's documents, and its writes succeed.
//
// `REPLIES` sets how many (`make hostile REPLIES=10000`); `ESCALE_SEED` repeats a run.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { openBrowser } from "../support/browser.mjs";
import { startSite } from "../support/site.mjs";

const REPLIES = count("REPLIES", 300);
const SEED = startSeed();
/** Replies to one store: epochs only grow, and at some point there is no later one. */
const TO_ONE_STORE = 50;
/** The page's clocks run faster by this factor: the pauses after a failure belong to the session, not to the proof. */
const FASTER = 50;
/** The most memory that the wasm may hold; for a few notes it is a little over 1 MiB. */
const MEMORY_BYTES_MAX = 16 << 20;

test(`a session works on after each of ${REPLIES} altered replies`, { timeout: 60_000 + REPLIES * 500 }, async (t) => {
  console.log(`# ESCALE_SEED=${SEED} REPLIES=${REPLIES}`);
  const began = performance.now();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  await page.evaluate(
    async ({ seed, faster }) => {
      window.instances = 0;
      const { instantiate } = WebAssembly;
      WebAssembly.instantiate = async (...values) => {
        const made = await instantiate(...values);
        window.instances += 1;
        window.exported = (made.instance ?? made).exports;
        return made;
      };
      const [now, wait] = [performance.now.bind(performance), window.setTimeout.bind(window)];
      performance.now = () => now() * faster;
      window.setTimeout = (callback, ms = 0, ...values) => wait(callback, ms / faster, ...values);
      const { makeLyingServer } = await import("/lying-server.js");
      const { randomFrom } = await import("/random.js");
      const { open, defineSchema } = window.page;
      const schema = defineSchema({ Note: { key: ["id"], properties: { text: "string", n: "number" } } });
      const random = randomFrom(seed);
      window.play = async (name, replies) => {
        const taken = {};
        window.instances = 0;
        let session;
        const server = makeLyingServer(random, () => {
          const how = session.status.value.error?.code ?? "believed";
          taken[how] = (taken[how] ?? 0) + 1;
        });
        session = await open({ org: name, schema, server: server.adapter, key: new Uint8Array(32) });
        let [docs, look] = [[], () => {}];
        session.live("Note", {}, (all) => {
          docs = all;
          look();
        });
        const plain = (list) => JSON.stringify(list.map(({ id, n, text }) => [id, n, text]).sort());
        const shows = () => plain(docs) === plain([...server.rows.values()].map(({ data }) => data));
        const note = (n) => session.put("Note", { id: `n${n % 12}`, n, text: "a text to alter ".repeat(1 + (n % 5)) });
        await note(0).accepted;
        for (let n = 1; n <= replies; n++) {
          server.lie();
          // If a lie refuses the write, it is parked.
          await note(n).accepted.catch(() => {});
          session.refused.value.forEach(({ discard }) => discard());
          // A write without lies: it succeeds, and everything is shown as it is.
          await note(n + 1_000).accepted;
          await new Promise((resolve) => {
            look = () => shows() && resolve();
            look();
          });
          if (!(await session.get("Note", [`n${(n + 1_000) % 12}`]))) throw new Error("a note that is not there");
        }
        const { lied } = server;
        await session.close();
        return { lied, taken, instances: window.instances, bytes: window.exported.memory.buffer.byteLength };
      };
    },
    { seed: SEED, faster: FASTER },
  );
  let [lied, last] = [0, undefined];
  const taken = {};
  for (let store = 0; lied < REPLIES; store++) {
    const count = Math.min(TO_ONE_STORE, REPLIES - lied);
    last = await page.evaluate(([name, replies]) => window.play(name, replies), [`hostile${store}`, count]);
    assert.equal(last.lied, count, "each round has its lie");
    lied += last.lied;
    for (const [how, times] of Object.entries(last.taken)) taken[how] = (taken[how] ?? 0) + times;
    assert.equal(last.instances, 1, "the instance that the store had at first is there still");
    assert.ok(last.bytes <= MEMORY_BYTES_MAX, `the wasm holds ${last.bytes} bytes`);
  }
  console.log(`# how they were taken: ${JSON.stringify(taken)}; the wasm holds ${(last.bytes / 2 ** 20).toFixed(2)} MiB`);
  assert.ok(taken.believed > 0 && taken.malformed > 0, "some are believed, some are not");
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(`proof: hostile | a session works on after each altered reply, in one instance of the wasm | ${lied} replies | violations 0 | ${seconds} s`);
});
