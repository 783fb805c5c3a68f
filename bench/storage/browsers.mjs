// Chromium and Firefox, each with a new profile, driven in the same way.
import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { KilledBrowser } from "../../tests/e2e/support/killed-browser.mjs";
import { KilledFirefox } from "../../tests/e2e/support/killed-firefox.mjs";

export const BROWSERS = { chromium: KilledBrowser, firefox: KilledFirefox };

const SOURCE = await readFile(new URL("page.js", import.meta.url), "utf8");

/** Hands the module to a page; its functions then run by `run(what, options)`. */
async function driven(page) {
  await page.evaluate(async (source) => {
    window.source = source;
    window.storage = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  }, SOURCE);
  const run = (what, options) => page.evaluate(([name, given]) => window.storage.run(name, given, window.source), [what, options]);
  /** Begins some work that never ends. */
  const begin = (what, options) => page.evaluate(([name, given]) => void window.storage.run(name, given, window.source), [what, options]);
  return { page, run, begin };
}

/** Opens a browser on a profile for some work, and kills it afterwards. `told` gets each number that the page reports. */
export async function inBrowser(name, profile, site, work, { told = () => {}, quota } = {}) {
  const browser = await BROWSERS[name].start(profile);
  try {
    // Firefox's own bound is in KB, and one origin has a fifth of it. Chromium's is of one origin.
    if (quota && name === "firefox") {
      await appendFile(join(profile, "user.js"), `user_pref("dom.quotaManager.temporaryStorage.fixedLimit", ${(quota * 5) / 1024});\n`);
    }
    const page = await browser.page(site.url, { told });
    if (quota && name === "chromium") {
      const devtools = await page.context().newCDPSession(page);
      await devtools.send("Storage.overrideQuotaForOrigin", { origin: new URL(site.url).origin, quotaSize: quota });
    }
    return await work(await driven(page), () => browser.kill());
  } finally {
    await browser.kill();
  }
}

/** Makes a profile for some work, and removes it afterwards. */
export async function withProfile(work) {
  const profile = await mkdtemp(join(tmpdir(), "escale-storage-"));
  try {
    return await work(profile);
  } finally {
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
