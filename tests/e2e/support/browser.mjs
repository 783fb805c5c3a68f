// Chromium, with a separate profile.
import { join } from "node:path";

import { chromium } from "playwright-core";

import { CHROME, folderFor } from "./paths.mjs";

export const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A browser on a profile that may be closed and opened again. */
export class Browser {
  #context;

  constructor(profile, options) {
    this.profile = profile;
    this.options = options;
  }

  async open() {
    const options = { executablePath: CHROME, headless: true, args: ARGS, ...this.options };
    this.#context = await chromium.launchPersistentContext(this.profile, options);
    return this;
  }

  get args() {
    return ARGS;
  }

  get context() {
    return this.#context;
  }

  async close() {
    const context = this.#context;
    this.#context = undefined;
    await context?.close();
  }

  /** A page of the site, with the helpers loaded as `window.page`. */
  async page(url) {
    const page = await this.#context.newPage();
    page.on("pageerror", (error) => console.log(`# in the page: ${error.message}`));
    await visit(page, url);
    return page;
  }
}

/** Goes to the site and loads the helpers; also needed after a reload. */
export async function visit(page, url) {
  await page.goto(url);
  await page.evaluate(async () => {
    window.page = await import("/in-page.js");
  });
}

/** An open browser with a fresh profile, closed with the test `t`. */
export async function openBrowser(t, options = {}) {
  const profile = join(await folderFor(t), "profile");
  const browser = new Browser(profile, options);
  t.after(() => browser.close());
  return browser.open();
}
