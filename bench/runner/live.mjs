// W6: the time from a change in one browser, through the real server, to the callback of a subscriber in another
// browser.
import { openBrowser } from "../../tests/e2e/support/browser.mjs";
import { makeServer } from "../../tests/e2e/support/server.mjs";
import { startSite } from "../../tests/e2e/support/site.mjs";

const CHANGES = 200;
const schema = { Note: { key: ["id"], properties: { n: "number" } } };

/** Imitates a test for the tests' helpers: it runs their cleanup when everything is over. */
export class Run {
  #ends = [];
  after(end) {
    this.#ends.push(end);
  }
  async end() {
    for (const end of this.#ends.reverse()) await end();
  }
}

/** Milliseconds from a write in one browser to the callback in another: `{ heardP50, heardP95 }`. */
export async function live() {
  const run = new Run();
  try {
    const server = await makeServer(run, { schema });
    await server.import("demo", "Note", [{ id: "first", n: 0 }]);
    await server.start();
    const site = await startSite(run);
    const session = { org: "demo", schema, server: server.url };
    const pages = [];
    for (let browser = 0; browser < 2; browser += 1) {
      const page = await (await openBrowser(run)).page(site.url);
      await page.evaluate(async (options) => {
        const { loaded, start, whenStatus } = window.page;
        await start("main", { ...options, key: new Uint8Array(32).fill(7) });
        window.page.sessions.main.session.live("Note", {}, () => {});
        await loaded("main", "Note", {});
        await whenStatus("main", ({ phase }) => phase === "live");
      }, session);
      pages.push(page);
    }
    const [writer, reader] = pages;
    // On one machine, the clocks of all browsers are the same.
    await reader.evaluate(() => {
      window.heard = new Map();
      window.page.sessions.main.session.live("Note", {}, (docs) => {
        const now = performance.timeOrigin + performance.now();
        for (const { n } of docs) if (!window.heard.has(n)) window.heard.set(n, now);
        window.waiting?.();
      });
    });
    const times = [];
    for (let n = 1; n <= CHANGES; n += 1) {
      const written = await writer.evaluate((one) => {
        const now = performance.timeOrigin + performance.now();
        void window.page.sessions.main.session.put("Note", { id: "first", n: one });
        return now;
      }, n);
      const heard = await reader.evaluate(
        (one) =>
          new Promise((resolve) => {
            window.waiting = () => window.heard.has(one) && resolve(window.heard.get(one));
            window.waiting();
          }),
        n,
      );
      times.push(heard - written);
    }
    times.sort((a, b) => a - b);
    const at = (share) => times[Math.ceil(times.length * share) - 1];
    return { heardP50: at(0.5), heardP95: at(0.95) };
  } finally {
    await run.end();
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) console.log(await live());
