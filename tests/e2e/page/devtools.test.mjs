// The devtools of the package in Chromium: each tab, by keyboard and on a phone, under a strict policy.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { examplesOf } from "../../../site/test/blocks.mjs";
import { openBrowser } from "../support/browser.mjs";
import { ROOT } from "../support/paths.mjs";
import { startProxy } from "../support/proxy.mjs";
import { schema, some } from "../support/packages.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const COUNT = 120;
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self' http: ws:";
const PASSPHRASE = "a planted passphrase";

/** A page with an open session over the server, and its devtools. */
async function setUp(t, { screen = {}, options = { open: true }, policy = POLICY } = {}) {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const proxy = await startProxy(t, server);
  const [site, browser] = [await startSite(t, { policy }), await openBrowser(t, screen)];
  const page = await browser.page(site.url);
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  await page.evaluate(
    async ({ opening, shown }) => {
      window.session = await window.page.start("main", opening);
      await window.page.loaded("main", "Package", {});
      const { devtools } = await import("/pkg/devtools.js");
      window.tools = devtools(window.session, shown);
    },
    { opening: { org: "demo", schema, server: proxy.url, passphrase: PASSPHRASE }, shown: options },
  );
  const part = (name) => page.locator(`escale-devtools [part~="${name}"]`);
  const panel = page.locator("escale-devtools #panel");
  const shows = (text) => panel.filter({ hasText: text }).waitFor();
  return { server, proxy, page, part, panel, shows, problems };
}

test("each tab shows its part of the session, and an operation's whole fate", { timeout: 90_000 }, async (t) => {
  const { server, proxy, page, part, panel, shows, problems } = await setUp(t);
  await shows("live");
  await part("tab-subscriptions").click();
  await part("collection").waitFor();
  assert.deepEqual(await part("collection").evaluate(({ dataset: { def, size, ready } }) => [def, size, ready]), ["Package", `${COUNT}`, "true"]);

  await part("tab-documents").click();
  assert.equal(await part("held").getAttribute("data-count"), `${COUNT}`);
  const first = await part("document").first().locator("summary").textContent();
  await part("document").first().locator("summary").click();
  await panel.locator("pre", { hasText: `"name": "${first}"` }).waitFor();
  await panel.locator("button", { hasText: "Next" }).click();
  await page.waitForFunction((name) => document.querySelector("escale-devtools").shadowRoot.querySelector("summary").textContent > name, first);
  await panel.locator("button", { hasText: "Back" }).click();
  await part("document").first().locator("summary", { hasText: first }).waitFor();

  // An accepted operation, one that waits, and one that is refused.
  await part("tab-operations").click();
  await shows("No operation");
  await page.evaluate(() => window.session.patch("Package", ["0ad"], { summary: "PLANTED" }).accepted);
  await panel.locator("tr", { hasText: "doc.patch" }).filter({ hasText: "accepted" }).waitFor();
  await page.evaluate(() => void window.session.put("Package", { name: "0ad", summary: "PLANTED" }, { ifVersion: 1 }));
  await panel.locator("tr", { hasText: "refused" }).filter({ hasText: "version_conflict" }).waitFor();
  await panel.locator("button", { hasText: "Discard" }).click();
  await panel.locator("tr", { hasText: "left" }).waitFor();
  assert.deepEqual(await page.evaluate(() => window.session.refused.value.length), 0);

  // The browser's own record of the requests: the proxy counts the same.
  await part("tab-network").click();
  const posts = () => proxy.requests.length;
  await page.waitForFunction((count) => document.querySelector("escale-devtools").shadowRoot.querySelectorAll("tbody tr").length === count, posts());
  await panel.locator("tr", { hasText: "200" }).first().waitFor();

  await part("tab-storage").click();
  await part("hex").filter({ hasText: "0000  " }).waitFor();
  const { records, rest } = await page.evaluate(async () => {
    const { store } = await window.session.inspect({ limit: 0 });
    return { records: `${Object.values(store.counts).reduce((sum, n) => sum + n, 0)}`, rest: `${store.bytes}` };
  });
  assert.deepEqual(await part("records").evaluate(({ dataset }) => [dataset.records, dataset.bytes]), [records, rest]);

  await part("tab-report").click();
  const report = JSON.parse(await part("report").textContent());
  assert.deepEqual([report.status.phase, report.memory.documents, report.operations.length], ["live", COUNT, 2]);
  assert.ok(report.network.length > 0 && report.network.every(({ kind }) => kind === "sync"));
  for (const secret of ["PLANTED", "planted", "0ad", proxy.url, "demo"]) {
    assert.ok(!JSON.stringify(report).includes(secret), `the report holds ${secret}`);
  }

  await server.stop("SIGKILL");
  await part("tab-overview").click();
  await shows("offline");
  await page.evaluate(() => window.session.close());
  await part("tab-subscriptions").click();
  await shows("The session is closed.");
  assert.deepEqual(problems.filter((text) => /Content Security Policy/.test(text)), [], "the policy allows its styles");
  await page.evaluate(() => window.tools.remove());
  assert.equal(await page.evaluate(() => window.session.onNews), undefined, "nothing is recorded any more");
});

test("the examples of the panel run", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t, { options: { inline: true }, policy: "" });
  const examples = examplesOf(await readFile(join(ROOT, "js/src/devtools/element.ts"), "utf8"));
  assert.deepEqual(examples.map(({ name }) => name).sort(), ["EscaleDevtools", "defineDevtools", "devtools"]);
  for (const { code } of examples) {
    const body = code.replace(/^import (.*) from "escale\/devtools";$/m, 'const $1 = await import("/pkg/devtools.js");');
    await page.evaluate((text) => new Function("session", `return (async () => {${text}})()`)(window.session), body);
  }
  // Two of them left their panel: one with a tab of the page's own, one by markup.
  assert.deepEqual(await page.locator('escale-devtools [role="tab"]', { hasText: "My tab" }).count(), 1);
  assert.equal(await page.locator("escale-devtools").count(), 2);
});

test("a page's own names of colours disturb neither the panel nor the page's tab", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  const colours = await page.evaluate(async () => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(":root { --accent: rgb(1, 2, 3); } escale-devtools { --escale-accent: var(--accent); } .own { color: var(--accent); }");
    document.adoptedStyleSheets = [sheet];
    const own = Object.assign(document.createElement("p"), { className: "own", textContent: "mine" });
    own.dataset.tab = "Mine";
    window.tools.append(own);
    await window.tools.show("Mine");
    const tab = window.tools.shadowRoot.querySelector('[aria-selected="true"]');
    return [getComputedStyle(tab).color, getComputedStyle(own).color, own.checkVisibility()];
  });
  assert.deepEqual(colours, ["rgb(1, 2, 3)", "rgb(1, 2, 3)", true]);
});

test("by keyboard alone: it opens, every tab is reached, and it closes", { timeout: 60_000 }, async (t) => {
  const { page, panel } = await setUp(t, { options: {} });
  const focus = () => page.evaluate(() => document.activeElement.shadowRoot?.activeElement?.textContent);
  await page.keyboard.press("Tab");
  assert.equal(await focus(), "Escale");
  await page.keyboard.press("Enter");
  assert.equal(await focus(), "Overview");
  const seen = [];
  for (let step = 0; step < 8; step++) {
    seen.push(await focus());
    const selected = page.locator('escale-devtools [role="tab"][aria-selected="true"]');
    assert.equal(await selected.textContent(), seen.at(-1), "the focus is on the selected tab");
    assert.equal(await panel.getAttribute("aria-labelledby"), await selected.getAttribute("id"));
    await page.keyboard.press("ArrowRight");
  }
  assert.deepEqual(seen, ["Overview", "Subscriptions", "Documents", "Operations", "Network", "Storage", "Report", "Overview"]);
  await page.keyboard.press("End");
  assert.equal(await focus(), "Report");
  await page.keyboard.press("Home");
  assert.equal(await focus(), "Overview");
  await page.locator('escale-devtools [aria-label="Close the devtools"]').focus();
  await page.keyboard.press("Enter");
  assert.equal(await focus(), "Escale");
});

test("a drawing keeps the focus of a button, and takes no turn of a newer one", { timeout: 60_000 }, async (t) => {
  const { page, part, panel } = await setUp(t);
  await page.evaluate(() => window.page.loaded("main", "Package", { section: "games" }));
  await part("tab-subscriptions").click();
  await part("collection").nth(1).waitFor();
  const button = panel.locator("button", { hasText: "Unsubscribe" }).first();
  await button.focus();
  const label = () => page.evaluate(() => document.activeElement.shadowRoot?.activeElement?.getAttribute("aria-label"));
  assert.equal(await label(), "Unsubscribe from Package");
  await page.evaluate(() => window.session.put("Package", { name: "zz-new", section: "games" }).accepted);
  await page.locator(`escale-devtools [data-def="Package"][data-size="${COUNT + 1}"]`).waitFor();
  assert.equal(await label(), "Unsubscribe from Package", "the list was drawn again under the focus");
  // A page that ends subscriptions in its own way.
  await page.evaluate(() => window.tools.addEventListener("unsubscribe", (event) => event.preventDefault(), { once: true }));
  await button.click();
  assert.equal((await page.evaluate(() => window.session.subscriptions())).length, 2);
  await button.click();
  assert.equal((await page.evaluate(() => window.session.subscriptions())).length, 1);
});

for (const colorScheme of ["light", "dark"]) {
  test(`on a phone in the ${colorScheme}, nothing is cut off, and text has contrast`, { timeout: 60_000 }, async (t) => {
    const screen = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme };
    const { page, part } = await setUp(t, { screen });
    await page.evaluate(() => {
      const meta = document.createElement("meta");
      document.head.append(Object.assign(meta, { name: "viewport", content: "width=device-width" }));
    });
    for (const tab of ["overview", "subscriptions", "documents", "operations", "network", "storage", "report"]) {
      await part(`tab-${tab}`).click();
      await page.evaluate(() => window.tools.refresh());
      const { wide, contrast } = await page.evaluate(() => {
        const luminance = (color) => {
          const [r, g, b] = color.match(/[\d.]+/g).map((n) => n / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const root = window.tools.shadowRoot;
        const texts = [...root.querySelectorAll("button, td, th, dt, dd, p, code, label, pre, .tag")].filter((one) => one.checkVisibility() && one.textContent.trim());
        const behind = (one) => {
          for (let at = one; at; at = at.parentElement) {
            const { backgroundColor } = getComputedStyle(at);
            if (!/, 0\)$|transparent/.test(backgroundColor)) return backgroundColor;
          }
          return "rgb(255, 255, 255)";
        };
        const ratios = texts.map((one) => {
          const [a, b] = [luminance(getComputedStyle(one).color), luminance(behind(one))].sort((x, y) => y - x);
          return { ratio: (a + 0.05) / (b + 0.05), text: one.textContent.slice(0, 30) };
        });
        const panel = root.querySelector("#panel");
        return { wide: panel.scrollWidth - panel.clientWidth, contrast: ratios.sort((x, y) => x.ratio - y.ratio)[0] };
      });
      assert.ok(wide <= 0, `${tab} is ${wide} pixels too wide`);
      assert.ok(contrast.ratio >= 4.5, `${tab}: ${JSON.stringify(contrast)}`);
      if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${colorScheme}-${tab}.png` });
    }
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  });
}
