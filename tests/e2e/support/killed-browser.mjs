// A Chromium that the test starts as a process of its own, to kill it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

import { ARGS, visit } from "./browser.mjs";
import { CHROME } from "./paths.mjs";

/** A browser on a profile; only killing ends it. */
export class KilledBrowser {
  #child;
  #browser;

  static async start(profile) {
    const browser = new KilledBrowser();
    // A group of its own: its helpers die with it, and let go of the profile.
    const args = [...ARGS, "--headless", "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
    const child = spawn(CHROME, args, { detached: true, stdio: ["ignore", "ignore", "pipe"] });
    browser.#child = child;
    browser.#browser = await chromium.connectOverCDP(await addressOf(child));
    return browser;
  }

  /** A page of the site with the helpers; `functions` are called by it. */
  async page(url, functions = {}) {
    const [context] = this.#browser.contexts();
    const page = await context.newPage();
    page.on("pageerror", (error) => console.log(`# in the page: ${error.message}`));
    for (const [name, call] of Object.entries(functions)) await page.exposeFunction(name, call);
    await visit(page, url);
    return page;
  }

  /** SIGKILL for the browser and its helpers. */
  async kill() {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    process.kill(-child.pid, "SIGKILL");
    await gone;
  }
}

/** Where it listens for us. */
async function addressOf(child) {
  const log = [];
  for await (const line of createInterface({ input: child.stderr })) {
    const [, address] = /^DevTools listening on (ws:\S+)/.exec(line) ?? [];
    if (address) {
      // Nobody reads on, and it must not wait for a reader.
      child.stderr.resume();
      return address;
    }
    log.push(line);
  }
  throw new Error(`${CHROME} ended before it listened:\n${log.join("\n")}`);
}
