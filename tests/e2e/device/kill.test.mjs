// R10, R11: a browser is killed while a page writes. Every operation reported as saved is executed in the end, exactly
// once.
//
// Each operation is a batch that adds 1 to its own counter and 1 to a shared one. At the end every operation's counter
// is 1, and the shared one is their number. No counter is missing that belongs to a saved operation.
//
// `KILLED` chooses the browser, both without it, and `KILLS` how often (`make kill KILLS=100`, `make kill-firefox
// KILLS=100`). `ESCALE_SEED` repeats the choices; the machine decides where exactly the browser is when it dies.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { KilledBrowser } from "../support/killed-browser.mjs";
import { KilledFirefox, LoadedAnew } from "../support/killed-firefox.mjs";
import { folderFor } from "../support/paths.mjs";
import { randomFrom } from "../support/in-page/random.js";
import { startSite } from "../support/site.mjs";
import { writingSchema, writingServer } from "../support/writing.mjs";

/** Each browser, how often it is killed by default, and the name of its proof. */
const BROWSERS = {
  chromium: { Killed: KilledBrowser, kills: 5, proof: "kill" },
  firefox: { Killed: KilledFirefox, kills: 3, proof: "kill-firefox" },
};
const CHOSEN = process.env.KILLED ? [process.env.KILLED] : Object.keys(BROWSERS);
const SEED = startSeed();
/**
 * The number of reports from the page, of writes issued, saved or accepted, before it may be killed; and milliseconds
 * after that.
 */
const [NEWS_MAX, AFTER_MS_MAX] = [200, 25];

const pkOf = (id) => createHash("sha256").update(id).digest().subarray(3, 19).toString("base64url");

/** Counters in one request: fewer than the most that a session requests. */
const AT_ONCE = 500;

/** The server's values of these counters, as `[id, n]`. */
async function stored(server, ids) {
  const found = [];
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    const subs = ids.slice(from, from + AT_ONCE).map((id) => [`Counter@${pkOf(id)}`, 0]);
    const body = JSON.stringify({ p: 1, session: "reader", ops: [], subs });
    const response = await fetch(`${server.url}/demo/sync`, { method: "POST", headers: { "content-type": "application/json" }, body });
    assert.equal(response.status, 200);
    const { parts } = await response.json();
    assert.equal(parts.length, subs.length, "every counter is told");
    // A missing counter is a part without rows: the caller must notice that it is missing.
    for (const { rows = [], fault } of parts) {
      assert.equal(fault, undefined);
      found.push(...rows.map(({ data }) => [data.id, data.n]));
    }
  }
  return found;
}

for (const name of CHOSEN) {
  const kills = count("KILLS", BROWSERS[name].kills);
  const title = `r10 r11: nothing saved is lost or done twice over ${kills} kills of ${name}`;
  test(title, { timeout: 60_000 + kills * 20_000 }, (t) => killAgainAndAgain(t, BROWSERS[name], kills));
}

async function killAgainAndAgain(t, { Killed, proof }, kills) {
  console.log(`# ESCALE_SEED=${SEED} KILLS=${kills}`);
  const random = randomFrom(SEED);
  const server = await writingServer(t);
  const site = await startSite(t);
  const profile = join(await folderFor(t), "profile");
  const options = { org: "demo", schema: writingSchema, server: server.url };
  const began = Date.now();
  /** The pages' reports, by the name of each operation: the furthest state that it reached. */
  const told = { issued: new Set(), saved: new Set(), accepted: new Set() };
  let pendingFound = 0;
  let [damages, behind, loadedAnew] = [0, 0, 0];
  let browser;
  let page;
  t.after(() => browser?.kill());

  /** One life of the browser. In the last one, every waiting operation is sent. */
  const live = async (round) => {
    let news = 0;
    let enough = NEWS_MAX + 1;
    let isEnough;
    const due = new Promise((resolve) => (isEnough = resolve));
    browser = await Killed.start(profile);
    page = await browser.page(site.url, {
      tell: (kind, name) => {
        told[kind].add(name);
        if (++news >= enough) isEnough();
      },
    });
    const [pending, isBehind] = await page.evaluate(async (o) => {
      const { session } = await window.page.openWriting("main", o).then(() => window.page.sessions.main);
      const names = session.pending().map(({ args }) => args.ops[0].args.key[0]);
      session.live("Counter", { key: ["shared"] }, () => {});
      return [names, session.status.error?.code === "local_data_lost"];
    }, options);
    pendingFound += pending.length;
    damages += browser.damages > 0 ? 1 : 0;
    behind += isBehind ? 1 : 0;
    // Reported as saved, and neither waiting here nor known to be accepted: it must have been accepted without a
    // report.
    const waiting = new Set(pending);
    assert.equal(waiting.size, pending.length, "no operation waits twice");
    const elsewhere = [...told.saved].filter((name) => !waiting.has(name) && !told.accepted.has(name));
    const there = new Map(await stored(server, elsewhere));
    const lost = elsewhere.filter((name) => there.get(name) !== 1);
    assert.deepEqual(lost, [], `after kill ${round}: told to be saved, and neither waiting nor done`);
    elsewhere.forEach((name) => told.accepted.add(name));
    if (round === kills) {
      await page.evaluate(() => window.page.whenStatus("main", ({ pending: left }) => left === 0).then(() => {}));
      return;
    }
    enough = news + 1 + random(NEWS_MAX);
    await page.evaluate((n) => void window.page.streamWrites("main", n), round);
    await Promise.race([due, browser.failed]);
    const after = random(AFTER_MS_MAX);
    await new Promise((resolve) => setTimeout(resolve, after));
  };
  for (let round = 0; round <= kills; round++) {
    try {
      await live(round);
    } catch (error) {
      if (!(error instanceof LoadedAnew) || ++loadedAnew > 1 + kills / 20) throw error;
      console.log(`# in round ${round} ${error.message}`);
      // The last life must reach its end.
      if (round === kills) round--;
    }
    if (round < kills) await browser.kill();
  }

  const counters = await page.evaluate(async (o) => {
    const { session } = await window.page.openWriting("reader", { ...o, mode: "incognito" }).then(() => window.page.sessions.reader);
    return (await session.collection("Counter", {}).whenReady()).map(({ id, n }) => [id, n]);
  }, options);
  const own = new Map(counters);
  const shared = own.get("shared");
  own.delete("shared");
  const lost = [...told.saved].filter((name) => !own.has(name));
  const twice = [...own].filter(([, n]) => n !== 1);
  const unknown = [...own.keys()].filter((name) => !told.issued.has(name));
  const seconds = ((Date.now() - began) / 1_000).toFixed(1);
  console.log(`# ${kills} kills in ${seconds} s: ${told.issued.size} operations told to be issued, ${told.saved.size} saved, ${own.size} done`);
  console.log(`# ${pendingFound} found waiting after a kill, ${lost.length} lost, ${twice.length} done twice`);
  console.log(`# the store was found behind the mark beside it, or gone, ${behind} times`);
  assert.deepEqual([lost, twice], [[], []]);
  assert.equal(shared, own.size, "each operation was done as a whole, once");
  // The page reports before it issues, so no executed operation can be unreported.
  assert.deepEqual(unknown, []);
  assert.ok(told.saved.size > kills, `${told.saved.size} operations were saved`);
  // Only Chromium reports databases that it found damaged. A store that Firefox deleted would be found gone.
  const lostStores = Killed === KilledBrowser ? `${damages} databases deleted by the browser` : `${behind} stores found behind or gone`;
  const done = `${kills} kills, ${told.saved.size} operations saved, ${lostStores}`;
  console.log(`proof: ${proof} | what was told to be saved is done, and done once | ${done} | violations 0 | ${seconds} s`);
}
