// Components that come and go: in React's StrictMode they leave no subscription, no listener, and nothing in the heap.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { rolldown } from "rolldown";

import { count } from "../../../testkit/effort.mjs";
import { openBrowser } from "../support/browser.mjs";
import { Heap } from "../support/heap.mjs";
import { startSite } from "../support/site.mjs";

const MOUNTS = count("MOUNTS", 200);
/** One listener that stays for each mount takes more than this: some 800 bytes were measured. */
const BYTES_A_MOUNT = 300;
/** Batches of so many mounts: the first ones compile code and fill caches. */
const [WARM, MEASURED] = [2, 3];

/** The code of the page, as a bundler for development makes it. */
async function bundled() {
  const build = await rolldown({
    input: fileURLToPath(new URL("../support/in-page/mounts.js", import.meta.url)),
    platform: "browser",
    resolve: { conditionNames: ["development", "browser", "module", "import", "default"] },
    transform: { define: { "process.env.NODE_ENV": '"development"' } },
    logLevel: "silent",
  });
  const { output } = await build.generate({ format: "esm", codeSplitting: false });
  return output[0].code;
}

test("mounts and unmounts in StrictMode leave no subscription, no listener and no growth", { timeout: 60_000 + MOUNTS * 200 }, async (t) => {
  const [site, browser, body] = [await startSite(t), await openBrowser(t), await bundled()];
  const page = await browser.context.newPage();
  await page.route("**/mounts.js", (route) => route.fulfill({ contentType: "text/javascript", body }));
  await page.goto(site.url);
  await page.evaluate(async () => {
    const { begin } = await import("/mounts.js");
    window.mounts = await begin();
  });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const heap = await Heap.of(page);
  /** Shows and hides the component, and resolves with the figures once the last subscription has ended. */
  const play = async (count) => {
    await page.evaluate((count) => {
      for (let n = 0; n < count; n++) {
        window.mounts.show(true);
        window.mounts.show(false);
      }
    }, count);
    await page.waitForFunction(() => window.mounts.session.subscriptions().length === 0);
    const used = await heap.used();
    const { metrics } = await cdp.send("Performance.getMetrics");
    const metric = (name) => metrics.find((one) => one.name === name).value;
    const figures = await page.evaluate(() => window.mounts.figures());
    return { ...figures, used, events: metric("JSEventListeners"), nodes: metric("Nodes") };
  };
  await page.evaluate(() => window.mounts.show(true));
  await page.waitForFunction(() => document.querySelector("main").textContent.startsWith("5 n1 3 live 0 0"));
  const shown = await page.evaluate(() => window.mounts.figures());
  assert.ok(shown.listeners > 3 && shown.subscriptions === 2, "the component listens");
  const batches = [];
  for (let batch = 0; batch <= WARM + MEASURED; batch++) batches.push(await play(MOUNTS));
  await page.evaluate(() => window.mounts.session.close());
  const last = batches.at(-1);
  assert.deepEqual([last.listeners, last.subscriptions], [0, 0]);
  // A leak grows in each batch. The caches of the browser do not, and neither does an object that it collects late.
  const growthsOf = (figure) => batches.slice(WARM + 1).map((batch, n) => batch[figure] - batches[WARM + n][figure]);
  for (const figure of ["events", "nodes"]) {
    const growths = growthsOf(figure);
    assert.ok(Math.min(...growths) <= 0, `the browser counts ${growths} more ${figure} after each batch`);
  }
  const growths = growthsOf("used").map((bytes) => bytes / MOUNTS);
  const least = Math.min(...growths);
  assert.ok(least < BYTES_A_MOUNT, `each mount leaves ${growths.map(Math.round)} bytes in the heap`);
  const rest = `${last.listeners} listeners, ${last.subscriptions} subscriptions, ${Math.round(least)} bytes in the heap for each`;
  console.log(`# ${batches.length * MOUNTS} mounts: ${rest}`);
});
