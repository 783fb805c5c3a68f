// R10: Chromium keeps all databases of a bucket in one set of files. It deletes all of them if it finds one damaged, as
// after a crash during a write. Operations reported as saved come back from the copy in the other bucket.
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { KilledBrowser } from "../support/killed-browser.mjs";
import { folderFor } from "../support/paths.mjs";
import { startSite } from "../support/site.mjs";
import { writingSchema, writingServer } from "../support/writing.mjs";

/**
 * Alters a byte in the middle of every log of the databases in a folder of the profile. Returns how many there were.
 */
async function damage(folder) {
  const files = await readdir(folder, { recursive: true });
  const logs = files.filter((file) => /IndexedDB.*leveldb\/\d+\.log$/.test(join(folder, file)));
  for (const log of logs.map((file) => join(folder, file))) {
    const bytes = await readFile(log);
    bytes[bytes.length >> 1] ^= 0x10;
    await writeFile(log, bytes);
  }
  return logs.length;
}

test("r10: a browser that deletes its damaged databases loses no operation", { timeout: 120_000 }, async (t) => {
  const server = await writingServer(t);
  const site = await startSite(t);
  const profile = join(await folderFor(t), "profile");
  const options = { org: "demo", schema: writingSchema, server: server.url };
  const folders = { databases: join(profile, "Default", "IndexedDB"), buckets: join(profile, "Default", "WebStorage") };
  let browser;
  t.after(() => browser?.kill());
  const begin = async (mode) => {
    browser = await KilledBrowser.start(profile);
    const page = await browser.page(site.url);
    const waiting = await page.evaluate(async (o) => {
      const session = await window.page.openWriting("main", o);
      return session.pending().map(({ args }) => args.key[0]);
    }, { ...options, mode });
    return { page, waiting };
  };
  const add = (page, id) =>
    page.evaluate((name) => window.page.sessions.main.session.run("counter.add", { key: [name], by: 1 }).saved, id);

  // In avion no store is made.
  await begin("synced");
  await browser.kill();
  const expected = [];
  // The first time nothing is damaged; then the stores' databases and the backup databases in turns.
  for (const where of ["", "databases", "buckets", "databases", "databases", "buckets"]) {
    if (where) assert.ok((await damage(folders[where])) > 0, `${where}: there is something to damage`);
    const { page, waiting } = await begin("avion");
    assert.deepEqual(waiting, expected, where);
    // Both were opened with the session.
    assert.equal(browser.damages > 0, where !== "", `${where}: the browser finds the damage`);
    expected.push(`c${expected.length}`);
    assert.equal(await add(page, expected.at(-1)), "device");
    await browser.kill();
  }
  const { page, waiting } = await begin("synced");
  assert.deepEqual(waiting, expected);
  const counters = await page.evaluate(async (names) => {
    await window.page.whenStatus("main", ({ pending }) => pending === 0);
    const docs = await window.page.sessions.main.session.collection("Counter", {}).whenReady();
    return names.map((name) => docs.find(({ id }) => id === name)?.n);
  }, expected);
  assert.deepEqual(counters, expected.map(() => 1), "each was done once");
});
