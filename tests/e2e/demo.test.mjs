// The demonstration, as a visitor uses it, on a desk and on a phone: follow, see, lose both servers, open in avion.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { openBrowser } from "./support/browser.mjs";
import { inSection } from "./support/packages.mjs";
import { ROOT } from "./support/paths.mjs";
import { startListening, stopProcess } from "./support/process.mjs";
import { packagesServer } from "./support/server.mjs";

const SECTION = "games";
const PASSPHRASE = "a visitor's passphrase";
const SCREENS = {
  "a desk": { viewport: { width: 1280, height: 800 } },
  "a phone": { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 3 },
};

const at = (page, id) => page.locator(`[data-testid="${id}"]`);

/** Gives the passphrase and opens the session in a mode. */
async function open(page, mode) {
  await at(page, "passphrase").fill(PASSPHRASE);
  await at(page, `mode-${mode}`).click();
  await at(page, "open").click();
}

/** Resolves once the list shows that many rows. */
const whenCounted = (page, count) => page.locator(`[data-testid="list"][data-count="${count}"]`).waitFor();

async function assertFits(page, what) {
  const { width, wide } = await page.evaluate(() => ({
    width: document.documentElement.clientWidth,
    wide: document.documentElement.scrollWidth,
  }));
  assert.ok(wide <= width, `${what} is ${wide} wide on a screen of ${width}`);
}

for (const [screen, options] of Object.entries(SCREENS)) {
  test(`on ${screen}, a visitor follows a section, and has it with no server at all`, { timeout: 120_000 }, async (t) => {
    const server = await packagesServer(t);
    const served = await startListening(process.execPath, [join(ROOT, "scripts/serve-www.mjs"), join(ROOT, "www/dist"), "0"]);
    t.after(() => stopProcess(served.child));
    const browser = await openBrowser(t, options);
    const page = await browser.context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error.message));
    const address = `http://localhost:${served.port}/?server=${encodeURIComponent(server.url)}`;
    await page.goto(address);
    await assertFits(page, "the first screen");

    await open(page, "synced");
    // A phone shows what can be followed as a sheet, at first or when asked.
    const chip = at(page, `follow-section-${SECTION}`);
    const tab = at(page, "tab-follow");
    await chip.or(tab).first().waitFor({ state: "attached" });
    if (await tab.isVisible()) await tab.click();
    await chip.click();
    if (await tab.isVisible()) await at(page, "follow-close").click();
    const count = inSection(SECTION).length;
    await whenCounted(page, count);
    await at(page, "row").first().waitFor();
    await page.locator('html[data-phase="live"]').or(at(page, "status-phase").filter({ hasText: /live/i })).first().waitFor();
    await assertFits(page, "the list");

    // What opens the page with no server was kept.
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => {}));

    await server.stop("SIGKILL");
    await stopProcess(served.child, "SIGKILL");
    await page.reload();
    await open(page, "avion");
    await whenCounted(page, count);
    const row = at(page, "row").first();
    await row.waitFor();
    const names = new Set(inSection(SECTION).map(({ name }) => name));
    const shown = await at(page, "row").allTextContents();
    assert.ok(shown.length > 3 && shown.some((text) => [...names].some((name) => text.includes(name))), `${shown}`);
    await row.click();
    await at(page, "detail-name").waitFor();
    assert.ok(names.has(await at(page, "detail-name").textContent()));
    await assertFits(page, "a package");
    assert.deepEqual(errors, []);
  });
}
