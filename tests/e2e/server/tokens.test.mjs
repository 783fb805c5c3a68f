// Tokens: the server asks for one, refuses it, gets another; the session pauses and resumes.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { schema, some } from "../support/packages.mjs";
import { folderFor } from "../support/paths.mjs";
import { startProxy } from "../support/proxy.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const COUNT = 30;
const GOOD = "a-token-that-is-long-enough-to-be-one";
const NEXT = "another-token-that-is-long-enough-too";

async function setUp(t) {
  const file = join(await folderFor(t), "tokens.json");
  const allow = (...tokens) =>
    writeFile(file, JSON.stringify(Object.fromEntries(tokens.map((token) => [token, { account: "ada", orgs: ["demo"], role: "read" }]))));
  await allow(GOOD);
  const server = await makeServer(t, { options: ["--tokens", file] });
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const [proxy, site, browser] = [await startProxy(t, server), await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  return { server, proxy, page, allow, options: { org: "demo", schema, server: proxy.url } };
}

/** Opens with a function that gives the tokens of a list, one after the other, and then waits for more. */
const start = (page, options, tokens) =>
  page.evaluate(async ([o, list]) => {
    window.asked = [];
    window.tokens = list;
    window.waiting = [];
    window.give = (token) => window.waiting.splice(0).forEach((resolve) => resolve(token));
    const token = (why) => {
      window.asked.push(why.refused);
      return window.tokens.shift() ?? new Promise((resolve) => window.waiting.push(resolve));
    };
    await window.page.start("main", { ...o, key: new Uint8Array(32), token });
    window.page.sessions.main.session.live("Package", {}, () => {});
  }, [options, tokens]);

const whenLive = (page) => page.evaluate(() => window.page.whenStatus("main", ({ phase, error }) => phase === "live" && !error));

test("a refused token pauses the session until the function gives a good one", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  await start(page, options, ["not-a-token-that-the-server-knows"]);
  const paused = await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "paused"));
  assert.equal(paused.error.code, "unauthorized");
  assert.ok(paused.error.cure.length > 10);
  await page.evaluate((token) => window.give(token), GOOD);
  await whenLive(page);
  const count = await page.evaluate(() => window.page.loaded("main", "Package", {}).then((docs) => docs.length));
  assert.equal(count, COUNT);
  assert.deepEqual(await page.evaluate(() => window.asked), [false, true]);
});

test("a token that is withdrawn while live is asked for again, and nothing is lost", { timeout: 60_000 }, async (t) => {
  const { server, page, allow, options } = await setUp(t);
  await start(page, options, [GOOD]);
  await whenLive(page);
  await allow(NEXT);
  // The hint leads to a pull, which is refused.
  await server.import("demo", "Package", some(COUNT).map((one) => ({ ...one, summary: "Changed" })));
  await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "paused"));
  const held = await page.evaluate(() => window.page.loaded("main", "Package", {}).then((docs) => docs.length));
  assert.equal(held, COUNT);
  await page.evaluate((token) => window.give(token), NEXT);
  await page.evaluate(() =>
    window.page.whenDocs("main", "Package", {}, (docs) => docs.every(({ summary }) => summary === "Changed")).then(() => {}),
  );
  await whenLive(page);
});

test("a function that gives refused tokens again and again does not hammer the server", { timeout: 60_000 }, async (t) => {
  const { proxy, page, options } = await setUp(t);
  const bad = Array.from({ length: 6 }, (_, n) => `a-token-that-the-server-does-not-know-${n}`);
  await start(page, options, bad);
  await page.evaluate(() => window.page.whenStatus("main", () => window.asked.length === 7));
  const [first, last] = [proxy.requests[0].at, proxy.requests.at(-1).at];
  console.log(`# ${proxy.requests.length} requests in ${last - first} ms`);
  assert.ok(proxy.requests.length <= 7);
  await page.evaluate((token) => window.give(token), GOOD);
  await whenLive(page);
});

test("without a good token the session is paused with the cause, and a function that fails is asked again", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  const phases = await page.evaluate(async (o) => {
    const results = [];
    let asked = 0;
    const fails = () => (asked++, Promise.reject(new Error("no luck")));
    for (const token of [fails, () => undefined, "a-token-that-nobody-knows", undefined]) {
      const session = await window.page.start("main", { ...o, mode: "incognito", token });
      session.live("Package", {}, () => {});
      const isTold = ({ phase, error }) => (token === fails ? error !== null && asked > 1 : phase === "paused");
      const { error } = await window.page.whenStatus("main", isTold);
      results.push(error.code);
      await session.close();
    }
    return results;
  }, options);
  assert.deepEqual(phases, Array(4).fill("unauthorized"));
});

test("a token that a header cannot carry is refused by its name", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  const error = await page.evaluate((o) => window.page.tryToStart("main", { ...o, mode: "incognito", token: "two words\n" }), options);
  assert.equal(error.code, "bad_option", JSON.stringify(error));
});

test("tokens stand in no address", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  const urls = [];
  page.on("request", (request) => urls.push(request.url()));
  page.on("websocket", (socket) => urls.push(socket.url()));
  await start(page, options, [GOOD]);
  await whenLive(page);
  assert.ok(urls.some((url) => url.endsWith("/live")) && urls.every((url) => !url.includes(GOOD)), `${urls}`);
});
