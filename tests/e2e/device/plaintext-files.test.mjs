// R13, R27, R29: a file, and the draft that held it first, leave nothing readable in a browser's profile. Neither do they in
// the profile of a device that read the file, nor in the folder of a server with a site key.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { folderFor } from "../support/paths.mjs";
import { Needles, search } from "../support/search.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

// Names that no browser has ever written.
const schema = {
  Quittung: { key: ["belegkennung"], properties: { belegdatei: "file" } },
  Entwurf: { key: ["entwurfskennung"], local: true, properties: { belegdatei: "file" } },
};
const ORG = "kolibriverwaltung";
const DRAFT = { entwurfskennung: "entwurf-der-reisekosten", vermerk: "Noch nicht zur Ansicht bestimmt" };
const RECEIPT = { belegkennung: "beleg-der-reisekosten", vermerk: "Zur Ansicht durch die Verwaltung" };
const FILE = { name: "niederschrift-der-sitzung.txt", type: "text/x-niederschrift" };
const lines = Array.from({ length: 30_000 }, (_, n) => `Zeile ${n} der vertraulichen Niederschrift vom Herbst`);
/** More than one chunk. */
const TEXT = lines.join("\n");
/** Lines of each part of the file. */
const SOME = lines.filter((_, n) => n % 300 === 7);

/** Opens a session with files. */
const start = (page, options) =>
  page.evaluate(async (o) => void (await window.page.start("main", { ...o, files: () => import("/pkg/files.js") })), options);

const objectsAt = async (server) => (await readdir(join(server.folder, "data", "files"), { recursive: true, withFileTypes: true }).catch(() => [])).filter((entry) => entry.isFile()).length;

/** One device writes the draft with its file, then turns it into a receipt. Another device reads the file. Resolves with the profiles. */
async function play(t, server, site) {
  const options = { org: ORG, schema, server: server.url, passphrase: "ein geheimer satz der verwaltung" };
  const [writer, reader] = [await openBrowser(t), await openBrowser(t)];
  // A store of objects may have a mark of its own.
  const before = await objectsAt(server);
  let page = await writer.page(site.url);
  await start(page, options);
  const file = await page.evaluate(
    async ([draft, { name, type }, text]) => {
      const { session } = window.page.sessions.main;
      const files = await session.files();
      const belegdatei = await files.add(new Blob([text], { type }), { name });
      await session.put("Entwurf", { ...draft, belegdatei }).accepted;
      const { local } = await files.usage();
      if (local !== belegdatei.size) throw new Error(`${local} bytes of local documents`);
      await window.page.whenStatus("main", ({ phase, pending }) => phase === "live" && pending === 0);
      await session.close();
      return belegdatei;
    },
    [DRAFT, FILE, TEXT],
  );
  assert.equal(await objectsAt(server), before, "nothing of a draft is sent");
  await writer.close();

  await writer.open();
  page = await writer.page(site.url);
  await start(page, options);
  await page.evaluate(async (receipt) => {
    const { session } = window.page.sessions.main;
    const { belegdatei, entwurfskennung } = await session.get("Entwurf", ["entwurf-der-reisekosten"]);
    const { accepted } = session.batch((tx) => {
      tx.delete("Entwurf", [entwurfskennung]);
      tx.put("Quittung", { ...receipt, belegdatei });
    });
    await accepted;
    if ((await session.get("Entwurf", [entwurfskennung])) !== undefined) throw new Error("the draft is still there");
    await session.close();
  }, RECEIPT);
  await writer.close();

  const other = await reader.page(site.url);
  await start(other, options);
  const read = await other.evaluate(async () => {
    const { session } = window.page.sessions.main;
    const [{ belegdatei }] = await session.collection("Quittung", {}).whenReady();
    const files = await session.files();
    const text = await new Response(files.read(belegdatei)).text();
    await session.close();
    return text;
  });
  assert.equal(read, TEXT);
  assert.ok((await objectsAt(server)) >= before + 3, "the server has two chunks and their list");
  return { file, writer, reader };
}

async function serverWith(t, options) {
  return (await makeServer(t, { schema, options })).start();
}

test("after files and drafts two profiles and a sealed server hold no plaintext, and the search would find some", { timeout: 180_000 }, async (t) => {
  const key = join(await folderFor(t), "site.key");
  await writeFile(key, randomBytes(32).toString("base64"));
  const [server, site] = [await serverWith(t, ["--site-key", key]), await startSite(t)];
  const { file, writer, reader } = await play(t, server, site);
  await server.stop();

  const atServer = new Needles([...SOME, FILE.name, FILE.type, DRAFT.vermerk, RECEIPT.vermerk]);
  assert.deepEqual((await search(join(server.folder, "data"), atServer)).hits, []);

  await reader.close();
  const onDevice = new Needles([...atServer.texts, ...Object.values(DRAFT), ...Object.values(RECEIPT), ORG, file.sha, "Quittung", "belegkennung", "entwurfskennung", "belegdatei"]);
  for (const { profile } of [writer, reader]) {
    const { hits, files, bytes } = await search(profile, onDevice);
    console.log(`# ${onDevice.texts.length} texts in ${files} files, ${bytes} bytes`);
    assert.deepEqual(hits, []);
  }

  // Records of this size are blobs. The search finds one that is in clear.
  await reader.open();
  const page = await reader.page(site.url);
  await page.evaluate(async (text) => {
    const request = indexedDB.open("planted");
    await new Promise((resolve, reject) => {
      request.onupgradeneeded = () => void request.result.createObjectStore("records");
      request.onsuccess = resolve;
      request.onerror = reject;
    });
    const transaction = request.result.transaction("records", "readwrite", { durability: "strict" });
    transaction.objectStore("records").put(new TextEncoder().encode(text), 1);
    await new Promise((resolve) => (transaction.oncomplete = resolve));
    request.result.close();
  }, TEXT);
  await reader.close();
  const { hits } = await search(reader.profile, onDevice);
  const found = new Set(hits.map(({ text }) => text));
  assert.deepEqual(SOME.filter((line) => !found.has(line)), [], "every planted line is found");
});

test("the same search finds a file at a server without a site key", { timeout: 180_000 }, async (t) => {
  const [server, site] = [await serverWith(t, []), await startSite(t)];
  await play(t, server, site);
  await server.stop();
  const { hits } = await search(join(server.folder, "data"), new Needles(SOME));
  const found = new Set(hits.map(({ text }) => text));
  // A line may be cut by the end of a chunk.
  assert.ok(found.size >= SOME.length - 2, `${found.size} of ${SOME.length} lines`);
});
