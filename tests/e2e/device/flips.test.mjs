// One bit flips in a file that the browser keeps for the origin: its databases, their names, the buckets, the quota.
// The server is running. A session then opens, and shows no document that the server never had. In the end it equals
// the server. So do the stored documents, or the session reports that it is in memory.
//
// `FLIPS` sets how many (`make flips FLIPS=200`): each file in turn, with a bit chosen by `ESCALE_SEED`.
import assert from "node:assert/strict";
import { cp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { openBrowser } from "../support/browser.mjs";
import { schema, some } from "../support/packages.mjs";
import { folderFor } from "../support/paths.mjs";
import { randomFrom } from "../support/in-page/random.js";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const FLIPS = count("FLIPS", 6);
const SEED = startSeed();
const [COUNT, CHANGED, GONE] = [200, 60, 20];
/** The parts of a profile that belong to origins: databases, the files of buckets, and quotas. */
const FOLDERS = ["Default/IndexedDB", "Default/WebStorage"];

/** Every file below these folders of a profile that has a bit to flip. */
async function filesOf(profile) {
  const lists = await Promise.all(
    FOLDERS.map(async (folder) => (await readdir(join(profile, folder), { recursive: true })).map((name) => join(folder, name))),
  );
  const files = [];
  for (const name of lists.flat().sort()) {
    const { size } = await stat(join(profile, name)).then((found) => (found.isFile() ? found : { size: 0 }));
    // LevelDB writes its LOG for people, and never reads it.
    if (size > 0 && !/LOG(\.old)?$/.test(name)) files.push(name);
  }
  return files;
}

/** Texts that do not compress, and some that need their own file. */
const chars = randomFrom(1);
const text = (length) => Array.from({ length }, () => String.fromCharCode(97 + chars(26))).join("");
const old = some(COUNT).map((doc, n) => ({ ...doc, text: text(n % 20 === 0 ? 100_000 : 2_000) }));
const now = old.slice(GONE).map((doc, n) => (n < CHANGED ? { ...doc, summary: `${doc.summary}, changed` } : doc));

/** A profile whose store is older than the server's last changes. Its files are restored before each flip. */
async function setUp(t) {
  const server = await makeServer(t);
  await server.import("demo", "Package", old);
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const options = { org: "demo", schema, server: server.url, key: undefined };
  let page = await browser.page(site.url);
  await page.evaluate(async (o) => {
    const session = await window.page.start("main", { ...o, key: new Uint8Array(32) });
    await window.page.loaded("main", "Package", {});
    await window.page.loaded("main", "Package", { section: "games" });
    for (let n = 0; n < 3; n++) await session.put("Package", { name: `own ${n}`, section: "games", summary: `${n}` }).accepted;
    await session.flush();
    await session.close();
  }, options);
  await browser.close();
  // At the next opening, LevelDB moves the contents of its log into a table.
  await browser.open();
  page = await browser.page(site.url);
  await page.evaluate(async (o) => {
    const session = await window.page.start("main", { ...o, key: new Uint8Array(32), mode: "avion" });
    await session.flush();
    await session.close();
  }, options);
  await browser.close();
  const kept = join(await folderFor(t), "kept");
  for (const folder of FOLDERS) await cp(join(browser.profile, folder), join(kept, folder), { recursive: true });
  await server.import("demo", "Package", [
    ...now.slice(0, CHANGED),
    ...old.slice(0, GONE).map(({ name, section }) => ({ name, section, _deleted: true })),
  ]);
  const restore = async () => {
    for (const folder of FOLDERS) {
      await rm(join(browser.profile, folder), { recursive: true, force: true });
      await cp(join(kept, folder), join(browser.profile, folder), { recursive: true });
    }
  };
  return { site, browser, options, restore };
}

/** Runs in the page: opens a session, and compares everything shown with the possible documents. */
async function live({ options, old, now }) {
  const key = new Uint8Array(32);
  const { tryToStart, sessions, whenDocs, whenStatus, wipe } = window.page;
  const known = new Map();
  const own = [0, 1, 2].map((n) => ({ name: `own ${n}`, section: "games", summary: `${n}` }));
  const sorted = (doc) => JSON.stringify(Object.entries(doc).sort());
  for (const doc of [...old, ...now, ...own]) known.set(doc.name, [...(known.get(doc.name) ?? []), sorted(doc)]);
  const wrong = [];
  const watch = (docs) => {
    for (const doc of docs) if (!known.get(doc.name)?.includes(sorted(doc))) wrong.push(doc);
  };
  const cures = [];
  let failed = await tryToStart("main", { ...options, key });
  if (failed) {
    // Follows the error's own cure.
    cures.push(failed.code);
    if (!/wipe/.test(failed.cure)) return { failed };
    await wipe({ org: options.org });
    failed = await tryToStart("main", { ...options, key });
    if (failed) return { failed, cures };
  }
  const { session } = sessions.main;
  session.live("Package", {}, watch);
  session.live("Package", { section: "games" }, watch);
  const wanted = new Map([...now, ...own].map((doc) => [doc.name, sorted(doc)]));
  await whenDocs("main", "Package", {}, (docs) => docs.length === wanted.size && docs.every((doc) => wanted.get(doc.name) === sorted(doc)));
  await whenStatus("main", ({ phase }) => phase === "live");
  const { storage } = session.status;
  const flushed = await session.flush().then(() => null, ({ code }) => code);
  await session.close();
  let rests = null;
  if (flushed === null) {
    rests = await tryToStart("after", { ...options, key, mode: "avion" });
    if (rests === null) {
      const docs = await window.page.loaded("after", "Package", {});
      rests = docs.length === wanted.size && docs.every((doc) => wanted.get(doc.name) === sorted(doc)) ? "equal" : "other";
      await sessions.after.session.close();
    } else rests = rests.code;
  }
  return { wrong, storage, flushed, rests, cures };
}

test("a bit that flips in any file of the browser's storage shows nothing wrong, and every session equals the server", { timeout: 60_000 + FLIPS * 40_000 }, async (t) => {
  const began = performance.now();
  console.log(`# ESCALE_SEED=${SEED}`);
  const below = randomFrom(SEED);
  const { site, browser, options, restore } = await setUp(t);
  await restore();
  const files = await filesOf(browser.profile);
  const seen = {};
  for (let n = 0; n < FLIPS; n++) {
    await restore();
    // In a short run, other files than in the last one.
    const file = files[(n + below(FLIPS < files.length ? files.length : 1)) % files.length];
    const bytes = await readFile(join(browser.profile, file));
    const bit = below(bytes.length * 8);
    bytes[bit >> 3] ^= 1 << (bit & 7);
    await writeFile(join(browser.profile, file), bytes);
    await browser.open();
    const page = await browser.page(site.url);
    const what = `ESCALE_SEED=${SEED}, flip ${n}: bit ${bit} of ${file}`;
    const outcome = await page.evaluate(live, { options, old, now }).catch((error) => ({ failed: error.message }));
    await browser.close();
    assert.deepEqual(outcome.failed, undefined, `${what}: ${JSON.stringify(outcome)}`);
    assert.deepEqual(outcome.wrong, [], what);
    if (outcome.flushed === null) assert.equal(outcome.rests, "equal", what);
    else assert.equal(outcome.storage, "memory", `${what}: ${JSON.stringify(outcome)}`);
    const kind = outcome.cures.length > 0 ? `after ${outcome.cures}` : outcome.storage;
    seen[kind] = (seen[kind] ?? 0) + 1;
  }
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  const kinds = Object.entries(seen).map(([kind, count]) => `${count} ${kind}`).join(", ");
  console.log(`proof: flips | a bit flipped in any file of the browser's storage: nothing wrong is shown, each session ends equal | ${FLIPS} flips in ${files.length} files: ${kinds} | violations 0 | ${seconds} s`);
});
