// R10, R11: the browser is killed while a page writes. What was told to be saved is done in the end, and done once.
//
// Each operation is a batch that adds 1 to a counter of its own and 1 to one that all share. At the end every counter
// of an operation stands at 1, the shared one at their number, and none is missing that was told to be saved.
//
// `KILLS` says how often (`make kill KILLS=100`). `ESCALE_SEED` gives the same choices again; where exactly the browser
// is when it dies is the machine's doing.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";

import { KilledBrowser } from "./support/killed-browser.mjs";
import { folderFor } from "./support/paths.mjs";
import { randomFrom } from "./support/random.js";
import { startSite } from "./support/site.mjs";
import { writingSchema, writingServer } from "./support/writing.mjs";

const KILLS = Number(process.env.KILLS || 5);
const SEED = Number(process.env.ESCALE_SEED || Math.floor(Math.random() * 2 ** 31));
/** News from the page, of writes issued, saved or accepted, before it may be killed; and milliseconds after that. */
const [NEWS_MAX, AFTER_MS_MAX] = [200, 25];

const pkOf = (id) => createHash("sha256").update(id).digest().subarray(3, 19).toString("base64url");

/** Counters that one request asks for: fewer than a session asks at once. */
const AT_ONCE = 500;

/** What the server holds of these counters, as `[id, n]`. */
async function stored(server, ids) {
  const found = [];
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    const subs = ids.slice(from, from + AT_ONCE).map((id) => [`Counter@${pkOf(id)}`, 0]);
    const body = JSON.stringify({ p: 1, session: "reader", ops: [], subs });
    const response = await fetch(`${server.url}/demo/sync`, { method: "POST", headers: { "content-type": "application/json" }, body });
    assert.equal(response.status, 200);
    const { parts } = await response.json();
    assert.equal(parts.length, subs.length, "every counter is told");
    // What the server does not have is a part without rows: whoever asks must find it missing.
    for (const { rows = [], fault } of parts) {
      assert.equal(fault, undefined);
      found.push(...rows.map(({ data }) => [data.id, data.n]));
    }
  }
  return found;
}

test(`r10 r11: nothing saved is lost or done twice over ${KILLS} kills of the browser`, { timeout: 60_000 + KILLS * 20_000 }, async (t) => {
  console.log(`# ESCALE_SEED=${SEED} KILLS=${KILLS}`);
  const random = randomFrom(SEED);
  const server = await writingServer(t);
  const site = await startSite(t);
  const profile = join(await folderFor(t), "profile");
  const options = { org: "demo", schema: writingSchema, server: server.url };
  const began = Date.now();
  /** What the pages told, by the name of each operation: the furthest that it came. */
  const told = { issued: new Set(), saved: new Set(), accepted: new Set() };
  let pendingFound = 0;
  let damages = 0;
  let browser;
  t.after(() => browser?.kill());

  for (let round = 0; round <= KILLS; round++) {
    let news = 0;
    let enough = NEWS_MAX + 1;
    let isEnough;
    const due = new Promise((resolve) => (isEnough = resolve));
    browser = await KilledBrowser.start(profile);
    const page = await browser.page(site.url, {
      tell: (kind, name) => {
        told[kind].add(name);
        if (++news >= enough) isEnough();
      },
    });
    const pending = await page.evaluate(async (o) => {
      const { session } = await window.page.openWriting("main", o).then(() => window.page.sessions.main);
      const names = session.pending().map(({ args }) => args.ops[0].args.key[0]);
      session.live("Counter", { key: ["shared"] }, () => {});
      return names;
    }, options);
    pendingFound += pending.length;
    damages += browser.damages > 0 ? 1 : 0;
    // Told to be saved, and neither waiting here nor known to be accepted: it must have been, without our being told.
    const waiting = new Set(pending);
    assert.equal(waiting.size, pending.length, "no operation waits twice");
    const elsewhere = [...told.saved].filter((name) => !waiting.has(name) && !told.accepted.has(name));
    const there = new Map(await stored(server, elsewhere));
    const lost = elsewhere.filter((name) => there.get(name) !== 1);
    assert.deepEqual(lost, [], `after kill ${round}: told to be saved, and neither waiting nor done`);
    elsewhere.forEach((name) => told.accepted.add(name));
    if (round === KILLS) {
      await page.evaluate(() => window.page.whenStatus("main", ({ pending: left }) => left === 0).then(() => {}));
      break;
    }
    enough = news + 1 + random(NEWS_MAX);
    await page.evaluate((n) => void window.page.streamWrites("main", n), round);
    await due;
    const after = random(AFTER_MS_MAX);
    await new Promise((resolve) => setTimeout(resolve, after));
    await browser.kill();
  }

  const page = await browser.page(site.url);
  const counters = await page.evaluate(async (o) => {
    const { session } = await window.page.openWriting("reader", { ...o, mode: "incognito" }).then(() => window.page.sessions.reader);
    return (await session.collection("Counter", {}).ready).map(({ id, n }) => [id, n]);
  }, options);
  const own = new Map(counters);
  const shared = own.get("shared");
  own.delete("shared");
  const lost = [...told.saved].filter((name) => !own.has(name));
  const twice = [...own].filter(([, n]) => n !== 1);
  const unknown = [...own.keys()].filter((name) => !told.issued.has(name));
  const seconds = ((Date.now() - began) / 1_000).toFixed(1);
  console.log(`# ${KILLS} kills in ${seconds} s: ${told.issued.size} operations told to be issued, ${told.saved.size} saved, ${own.size} done`);
  console.log(`# ${pendingFound} found waiting after a kill, ${lost.length} lost, ${twice.length} done twice`);
  console.log(`# the browser found its databases damaged ${damages} times, and deleted them`);
  assert.deepEqual([lost, twice], [[], []]);
  assert.equal(shared, own.size, "each operation was done as a whole, once");
  // The page tells before it issues, so that the news can be late for nothing that was done.
  assert.deepEqual(unknown, []);
  assert.ok(told.saved.size > KILLS, `${told.saved.size} operations were saved`);
  const done = `${KILLS} kills, ${told.saved.size} operations saved, ${damages} databases deleted by the browser`;
  console.log(`proof: kill | what was told to be saved is done, and done once | ${done} | violations 0 | ${seconds} s`);
});
