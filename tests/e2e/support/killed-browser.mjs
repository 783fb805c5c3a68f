// A Chromium that the test starts as a separate process, to kill it.
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
  /** How often it has found its own databases damaged: it then deletes them. */
  damages = 0;
  /** Rejects if the page will report nothing more. In Chromium, the calls themselves fail. */
  failed = new Promise(() => {});

  static async start(profile) {
    const browser = new KilledBrowser();
    // Its errors are read: nothing else reports those of its databases.
    const talk = "--enable-logging=stderr";
    // A separate process group: its helpers die with it, and release the profile.
    const args = [...ARGS, talk, "--headless", "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
    const child = spawn(CHROME, args, { detached: true, stdio: ["ignore", "ignore", "pipe"] });
    browser.#child = child;
    const lines = createInterface({ input: child.stderr });
    const address = await addressOf(lines);
    lines.on("line", (line) => (browser.damages += line.includes("Got corruption for") ? 1 : 0));
    browser.#browser = await chromium.connectOverCDP(address);
    return browser;
  }

  /** A page of the site with the helpers, which can call `functions`. */
  async page(url, functions = {}) {
    const [context] = this.#browser.contexts();
    const page = await context.newPage();
    page.on("pageerror", (error) => console.log(`# in the page: ${error.message}`));
    for (const [name, call] of Object.entries(functions)) await page.exposeFunction(name, call);
    await visit(page, url);
    return page;
  }

  /** Sends SIGKILL to the browser and its helpers. */
  async kill() {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    process.kill(-child.pid, "SIGKILL");
    await gone;
  }
}

/** The address of its debugging port, from its output. */
function addressOf(lines) {
  const log = [];
  return new Promise((resolve, reject) => {
    lines.on("line", function listen(line) {
      const [, address] = /^DevTools listening on (ws:\S+)/.exec(line) ?? [];
      log.push(line);
      if (!address) return;
      lines.off("line", listen);
      resolve(address);
    });
    lines.on("close", () => reject(new Error(`${CHROME} ended before it listened:\n${log.join("\n")}`)));
  });
}
