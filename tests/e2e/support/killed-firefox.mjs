// A Firefox that the test starts as a separate process, to kill it. Only its page drives it: the page fetches code from
// a server of the test, runs it, and reports the results to that server.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";

import { FIREFOX } from "./paths.mjs";

/** A browser that only shows its page: no greeting, no restoring, and no other requests. */
const PREFERENCES = {
  "app.normandy.enabled": false,
  "app.update.disabledForTesting": true,
  "browser.aboutwelcome.enabled": false,
  "browser.newtabpage.enabled": false,
  "browser.region.network.url": "",
  "browser.safebrowsing.blockedURIs.enabled": false,
  "browser.safebrowsing.downloads.enabled": false,
  "browser.safebrowsing.malware.enabled": false,
  "browser.safebrowsing.phishing.enabled": false,
  "browser.search.update": false,
  "browser.sessionstore.resume_from_crash": false,
  "browser.shell.checkDefaultBrowser": false,
  "browser.startup.homepage_override.mstone": "ignore",
  "browser.startup.page": 0,
  "browser.topsites.contile.enabled": false,
  "datareporting.policy.dataSubmissionEnabled": false,
  "dom.push.connection.enabled": false,
  "extensions.getAddons.cache.enabled": false,
  "extensions.systemAddon.update.enabled": false,
  "extensions.update.enabled": false,
  "media.gmp-manager.updateEnabled": false,
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "startup.homepage_welcome_url": "",
  "startup.homepage_welcome_url.additional": "",
  // However often it is killed, it starts normally.
  "toolkit.startup.max_resumed_crashes": -1,
  "toolkit.telemetry.enabled": false,
  "toolkit.telemetry.reportingpolicy.firstRun": false,
  "toolkit.telemetry.unified": false,
  "trailhead.firstrun.didSeeAboutWelcome": true,
};

/** The browser reloaded the page by itself: the page's sessions ended as with a kill. */
export class LoadedAnew extends Error {}

/**
 * A browser on a profile; only killing ends it. Its interface is that of Chromium (killed-browser.mjs), but for one
 * page only.
 */
export class KilledFirefox {
  #profile;
  #child;
  #server;
  /** The page's event stream, by which it receives code to run; and the load of the page that opened it first. */
  #page;
  #loading;
  #failure;
  #rejectFailed;
  /** Rejects if the page will report nothing more. */
  failed = new Promise((_, reject) => (this.#rejectFailed = reject));
  #asked = new Map();
  #functions = {};
  #log = [];

  static async start(profile) {
    const browser = new KilledFirefox();
    // Not every test awaits it.
    browser.failed.catch(() => {});
    browser.#profile = profile;
    await mkdir(profile, { recursive: true });
    const lines = Object.entries(PREFERENCES).map(([name, value]) => `user_pref("${name}", ${JSON.stringify(value)});\n`);
    await writeFile(join(profile, "user.js"), lines.join(""));
    return browser;
  }

  /** The page of the site with the helpers, which can call `functions`. */
  async page(url, functions = {}) {
    if (this.#server) throw new Error("one page for each start");
    this.#functions = functions;
    const connected = this.#listen();
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const address = new URL(`driven?at=${this.#server.address().port}`, url);
    const args = ["--headless", "--no-remote", "--profile", this.#profile, address.href];
    // A separate home, so that no file stays behind; and a separate process group, so that its helpers die with it.
    const env = { ...process.env, HOME: this.#profile, MOZ_CRASHREPORTER_DISABLE: "1" };
    this.#child = spawn(FIREFOX, args, { detached: true, env, stdio: ["ignore", "ignore", "pipe"] });
    this.#child.stderr.on("data", (bytes) => this.#log.push(bytes));
    const ended = once(this.#child, "exit").then(() => {
      const error = new Error(`${FIREFOX} has ended:\n${Buffer.concat(this.#log)}`);
      this.#fail(error);
      throw error;
    });
    // It outlives the race, and is no error any more once that is won.
    ended.catch(() => {});
    await Promise.race([connected, ended]);
    const page = { evaluate: (run, argument) => this.#ask(run, argument) };
    await page.evaluate(async (names) => {
      window.callable(names);
      window.page = await import("/in-page.js");
    }, Object.keys(functions));
    return page;
  }

  /** Sends SIGKILL to the browser and its helpers. */
  async kill() {
    this.#server?.closeAllConnections();
    this.#server?.close();
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    process.kill(-child.pid, "SIGKILL");
    await gone;
  }

  /** Makes the server that the page connects to; resolves once the page is connected. */
  #listen() {
    return new Promise((resolve) => {
      this.#server = createServer(async (request, response) => {
        response.setHeader("access-control-allow-origin", "*");
        response.setHeader("cache-control", "no-store");
        const [what, loading] = request.url.split("?");
        if (what === "/asked") {
          response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
          this.#page = response;
          this.#loading ??= loading;
          if (loading !== this.#loading) this.#fail(new LoadedAnew(`the browser loaded the page anew: ${this.#loading}, then ${loading}`));
          resolve();
          return;
        }
        const parts = [];
        try {
          for await (const bytes of request) parts.push(bytes);
        } catch {
          return; // The browser died in the middle of it.
        }
        const told = JSON.parse(Buffer.concat(parts));
        response.end();
        this.#hear(what, told);
      });
    });
  }

  /** From now on, every call fails. */
  #fail(error) {
    this.#failure = error;
    this.#rejectFailed(error);
    for (const { reject } of this.#asked.values()) reject(error);
  }

  #hear(what, told) {
    if (what === "/failed") console.log(`# in the page: ${told}`);
    if (what === "/called") this.#functions[told.name](...told.args);
    if (what !== "/answered") return;
    const { resolve, reject } = this.#asked.get(told.id);
    this.#asked.delete(told.id);
    if (told.failed === undefined) resolve(told.value);
    else reject(new Error(`in the page: ${told.failed}`));
  }

  /** Runs a function in the page, with a JSON argument; returns its result. */
  #ask(run, argument) {
    const id = crypto.randomUUID();
    return new Promise((resolve, reject) => {
      if (this.#failure) throw this.#failure;
      this.#asked.set(id, { resolve, reject });
      this.#page.write(`data: ${JSON.stringify({ id, source: String(run), argument })}\n\n`);
    });
  }
}
