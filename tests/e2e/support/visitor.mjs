// A visitor of the demonstration: the actions of a mouse or a finger, and the visible results.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { openBrowser } from "./browser.mjs";
import { ROOT } from "./paths.mjs";
import { startListening, stopProcess } from "./process.mjs";

export const PASSPHRASE = "a visitor's passphrase";

/** Elements meant to scroll sideways: the followed topics, the inspector's tabs, bytes in columns. */
const RAILS = ".strip, .tabs, pre";

export const SCREENS = {
  "a desk": { viewport: { width: 1280, height: 800 } },
  "a phone": { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 3 },
};

/**
 * A test of a visit, played on the screen that it names; its function gets the options of a browser with that screen.
 * With ESCALE_EFFORT=proof it is played on every screen, as its own test on each.
 */
export function visit(usual, name, limits, play) {
  const screens = process.env.ESCALE_EFFORT === "proof" ? Object.keys(SCREENS) : [usual];
  for (const screen of screens) test(`on ${screen}, ${name}`, limits, (t) => play(t, SCREENS[screen]));
}

/** Serves the built page by a separate process. */
export async function serveDemonstration(t) {
  const { child, port } = await startListening(process.execPath, [join(ROOT, "scripts/serve-www.mjs"), join(ROOT, "www/dist"), "0"]);
  const stop = () => stopProcess(child, "SIGKILL");
  t.after(stop);
  const origin = `http://localhost:${port}`;
  const of = (server) => `${origin}/${server ? `?server=${encodeURIComponent(server)}` : ""}`;
  return { origin, of, stop };
}

/** One page of the demonstration, in a separate browser. */
export class Visitor {
  /** The errors in the page. */
  errors = [];
  /** The title of the page. */
  title = "Escale demonstration";
  /** Every requested address, sockets included. */
  addresses = [];

  constructor(browser, page, address) {
    Object.assign(this, { browser, page, address });
    page.on("pageerror", (error) => this.errors.push(error.message));
    browser.context.on("request", (request) => this.addresses.push(request.url()));
    page.on("websocket", (socket) => this.addresses.push(socket.url()));
  }

  /** Goes to the page; `prepare` gets the context before. */
  static async at(t, address, screen = SCREENS["a desk"], prepare = () => {}) {
    const browser = await openBrowser(t, screen);
    await prepare(browser.context);
    const visitor = new this(browser, await browser.context.newPage(), address);
    await visitor.page.goto(address);
    return visitor;
  }

  /** Another tab of the same browser. */
  async another() {
    const visitor = new this.constructor(this.browser, await this.browser.context.newPage(), this.address);
    await visitor.page.goto(this.address);
    return visitor;
  }

  on(id) {
    return this.page.locator(`[data-testid="${id}"]`);
  }

  async open(mode, passphrase = PASSPHRASE) {
    await this.on("passphrase").fill(passphrase);
    await this.on(`mode-${mode}`).click();
    await this.on("open").click();
  }

  /** Opens for the first time, and waits for the message that the page itself is now stored. */
  async openFirst(mode, passphrase) {
    await this.open(mode, passphrase);
    await this.on("toast").filter({ hasText: "opens without a network" }).waitFor();
  }

  /** Chooses topics to follow; a phone shows the choice as a sheet. */
  async choose(...ids) {
    await this.on("status-phase").waitFor();
    const tab = this.on("tab-follow");
    const isPhone = await tab.isVisible();
    if (isPhone) await tab.click();
    for (const id of ids) await this.on(`follow-${id}`).click();
    await this.look("the choice of what to follow");
    if (isPhone) await this.on("follow-close").click();
  }

  /** Uses one of the session's actions; a phone shows them as a sheet. */
  async act(id) {
    const tab = this.on("tab-session");
    if (await tab.isVisible()) {
      await tab.click();
      await this.look("the session's actions");
    }
    await this.on(id).click();
  }

  /** Waits until the status shows a word. */
  async sees(word) {
    await this.on("status-phase").filter({ hasText: word }).waitFor();
    await this.page.locator(`html[data-phase="${word.toLowerCase()}"]`).waitFor();
  }

  /** Waits until the list has that many packages. */
  seesListed(count) {
    return this.page.locator(`[data-testid="list"][data-count="${count}"]`).waitFor();
  }

  /** Waits until a followed topic has that many packages, and is completely loaded. */
  seesFollowed(id, count) {
    return this.page.locator(`[data-testid="view-${id}"][data-count="${count}"][data-ready="true"]`).waitFor();
  }

  /** Scrolls the list from its first row to its last, and reads each: `[name, summary]`. */
  listed() {
    return this.page.evaluate(async () => {
      const list = document.querySelector('[data-testid="list"]');
      // The first frame handles the scrolling and draws; in the next one it is drawn.
      const drawn = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const rows = [];
      for (let top = 0, end = false; !end; top += list.clientHeight) {
        list.scrollTop = top;
        end = top + list.clientHeight >= list.scrollHeight;
        await drawn();
        for (const row of list.querySelectorAll('[data-testid="row"]:not([hidden])')) {
          rows[row.dataset.index] = [row.querySelector(".row-name").textContent, row.querySelector(".row-summary").textContent];
        }
      }
      list.scrollTop = 0;
      await drawn();
      return rows;
    });
  }

  /** Checks the rules for every screen: it fits, and title and address show only their first contents. */
  async look(what) {
    const { width } = this.page.viewportSize();
    const seen = await this.page.evaluate(async (rails) => {
      // Elements that still move are checked at their final position. Endless animations stay where they are.
      const moving = document.getAnimations().filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity);
      await Promise.allSettled(moving.map(({ finished }) => finished));
      const outside = [];
      for (const element of document.body.querySelectorAll("*")) {
        if (element.closest(rails) || !element.checkVisibility({ visibilityProperty: true })) continue;
        const scrolls = /auto|scroll/.test(getComputedStyle(element).overflowX) && element.scrollWidth > element.clientWidth;
        const { left, right, width: wide, height } = element.getBoundingClientRect();
        // Text and controls. Ornaments may cross an edge, and text for screen readers only has one pixel.
        const isText = element.matches("h1, h2, h3, p, dd, button, input, select, a, label") && wide > 1 && height > 1;
        if (scrolls || (isText && (left < -0.5 || right > innerWidth + 0.5))) outside.push(element.outerHTML.slice(0, 120));
      }
      const { scrollWidth } = document.documentElement;
      return { innerWidth, scrollWidth, outside, title: document.title, address: location.href };
    }, RAILS);
    assert.equal(seen.innerWidth, width, `${what} makes the screen wider`);
    assert.ok(seen.scrollWidth <= seen.innerWidth, `${what} is ${seen.scrollWidth} wide on a screen of ${seen.innerWidth}`);
    assert.deepEqual(seen.outside, [], `${what} fits, all of it`);
    assert.deepEqual([seen.title, seen.address], [this.title, this.address], what);
  }
}
