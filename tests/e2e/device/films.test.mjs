// R24, R26, R27: a film is added and sent while the browser, or the server, is killed again and again. It arrives whole, and
// at most three MiB are sent again after each kill.
//
// `FILM_MIB` is its length, `KILLS` how often each is killed, `KILLED` the browser (`make kill-files`). `ESCALE_SEED` repeats
// the choices; the machine decides where exactly something is when it dies.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { startCountingProxy } from "../support/counting-proxy.mjs";
import { KilledBrowser } from "../support/killed-browser.mjs";
import { KilledFirefox } from "../support/killed-firefox.mjs";
import { folderFor } from "../support/paths.mjs";
import { randomFrom } from "../support/in-page/random.js";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const MIB = 2 ** 20;
const BROWSERS = { chromium: KilledBrowser, firefox: KilledFirefox };
const CHOSEN = process.env.KILLED ? [process.env.KILLED] : Object.keys(BROWSERS);
const SEED = startSeed();
const KILLS = count("KILLS", 3);
/** Not a whole number of MiB: the last chunk is short. */
const BYTES = Number(process.env.FILM_MIB || 24) * MIB + 12_345;
/** The bytes that a kill may cost, by design: three transfers are under way. */
const AGAIN_MAX = 3 * MIB;
/** The bytes that the page may take above its start, for a film of any length. */
const HEAP_MAX = 24 * MIB;
const LOOKS = 5;

const schema = { Film: { key: ["id"], properties: { file: "file" } } };
const film = { seed: SEED % 1_000, bytes: BYTES };
/** A film with its list, as it is sent at least. */
const WHOLE = BYTES + Math.ceil(BYTES / MIB) * 32;

async function setUp(t) {
  const server = await (await makeServer(t, { schema })).start();
  const proxy = await startCountingProxy(t, server);
  const site = await startSite(t);
  return { server, proxy, site, options: { org: "demo", schema, server: proxy.url, passphrase: "a film of the harbour" } };
}

const withFilms = (page) => page.evaluate(async () => void (window.films = await import("/films.js")));

async function openFilms(browser, site, options) {
  const page = await browser.page(site.url);
  await withFilms(page);
  await page.evaluate((o) => window.films.openFilms("main", o).then((session) => session.collection("Film", {}).whenReady().then(() => {}, () => {})), options);
  return page;
}

/** Another profile reads the film. */
async function readElsewhere(t, Killed, site, options) {
  const browser = await Killed.start(join(await folderFor(t), "reader"));
  t.after(() => browser.kill());
  const page = await openFilms(browser, site, options);
  const heap = await watchHeap(Killed, page);
  assert.equal(await page.evaluate((f) => window.films.checkFilm("main", f), film), BYTES);
  await heap.check("while it reads");
}

/** Prints the bytes that were sent again after each kill, and limits them. */
function checkAgain(proxy, lives, whom) {
  const [all, most] = [proxy.up - WHOLE, Math.max(...lives)];
  console.log(`# ${KILLS} kills of ${whom}: ${(all / MIB).toFixed(1)} MiB sent again, at most ${(most / MIB).toFixed(1)} after one`);
  assert.ok(all <= KILLS * AGAIN_MAX, `${all} bytes were sent again`);
  assert.ok(most <= AGAIN_MAX, `${most} bytes were sent again after a kill`);
}

for (const name of CHOSEN) {
  const Killed = BROWSERS[name];
  const timeout = 120_000 + KILLS * 30_000 + (BYTES / MIB) * 3_000;

  test(`r24 r26: a film survives ${KILLS} kills of ${name}`, { timeout }, async (t) => {
    console.log(`# ESCALE_SEED=${SEED} KILLS=${KILLS} FILM_MIB=${Math.floor(BYTES / MIB)}`);
    const random = randomFrom(SEED);
    const { proxy, site, options } = await setUp(t);
    const profile = join(await folderFor(t), "profile");
    let browser;
    t.after(() => browser?.kill());
    const lives = [];
    for (let kills = 0; kills < KILLS; kills++) {
      browser = await Killed.start(profile);
      const page = await openFilms(browser, site, options);
      // The first lives end while it is being added, the others while it is being sent.
      const added = page.evaluate((f) => window.films.addFilm("main", f), film);
      added.catch(() => {});
      if (kills < KILLS / 4) await Promise.race([added, new Promise((resolve) => setTimeout(resolve, random(800)))]);
      else await Promise.race([proxy.reached(proxy.up + 1 + random(WHOLE / KILLS)), added.then(() => page.evaluate(() => window.films.allSent("main"))), browser.failed]);
      await browser.kill();
      lives.push(proxy.again());
    }
    browser = await Killed.start(profile);
    const page = await openFilms(browser, site, options);
    const heap = await watchHeap(Killed, page);
    await page.evaluate((f) => window.films.addFilm("main", f).then(() => {}), film);
    await page.evaluate(() => window.films.allSent("main"));
    checkAgain(proxy, [...lives, proxy.again()], name);
    await heap.check("while it sends");
    await browser.kill();
    await readElsewhere(t, Killed, site, options);
  });

  test(`r24 r26: a film survives ${KILLS} kills of the server, sent by ${name}`, { timeout }, async (t) => {
    console.log(`# ESCALE_SEED=${SEED} KILLS=${KILLS}`);
    const random = randomFrom(SEED + 1);
    const { server, proxy, site, options } = await setUp(t);
    const browser = await Killed.start(join(await folderFor(t), "profile"));
    t.after(() => browser.kill());
    const page = await openFilms(browser, site, options);
    const heap = await watchHeap(Killed, page);
    await page.evaluate((f) => window.films.addFilm("main", f).then(() => {}), film);
    const lives = [];
    const sent = page.evaluate(() => window.films.allSent("main"));
    for (let kill = 0; kill < KILLS; kill++) {
      await Promise.race([proxy.reached(proxy.up + 1 + random(WHOLE / KILLS)), sent]);
      await server.stop("SIGKILL");
      lives.push(proxy.again());
      await server.start();
    }
    await sent;
    checkAgain(proxy, [...lives, proxy.again()], "the server");
    await heap.check("while it adds and sends");
    await browser.kill();
    await readElsewhere(t, Killed, site, options);
  });
}

/** Looks at the page's heap again and again, arrays included. `check` limits the highest use above the start. Firefox does not tell. */
async function watchHeap(Killed, page) {
  if (Killed !== KilledBrowser) return { check: () => {} };
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("HeapProfiler.enable");
  const look = async () => {
    // Garbage does not count: the engine collects it when it likes. The second collection waits until the buffers of the
    // first one are freed. Both have to be awaited: the engine makes a task of each.
    await devtools.send("HeapProfiler.collectGarbage");
    await devtools.send("HeapProfiler.collectGarbage");
    const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await devtools.send("Runtime.getHeapUsage");
    return usedSize + embedderHeapUsedSize + backingStorageSize;
  };
  // The page makes garbage between a collection and the look. The least of some looks in a row has least of it, and all
  // that the page holds on to.
  const used = async () => {
    let least = Infinity;
    for (let n = 0; n < LOOKS; n++) least = Math.min(least, await look());
    return least;
  };
  const start = await used();
  let most = start;
  let isOver = false;
  const looking = (async () => {
    while (!isOver) most = Math.max(most, await used());
  })();
  return {
    check: async (when) => {
      isOver = true;
      await looking;
      const more = most - start;
      console.log(`# heap ${(more / MIB).toFixed(1)} MiB above the start ${when}`);
      assert.ok(more <= HEAP_MAX, `the page took ${more} bytes more ${when}`);
    },
  };
}
