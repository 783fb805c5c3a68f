// R13: nothing readable is stored in the browser's profile, after a full run and after an incognito one.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { openBrowser, visit } from "../support/browser.mjs";
import { schema as packagesSchema, some } from "../support/packages.mjs";
import { Needles, search } from "../support/search.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

// Names that no browser has ever written.
const schema = {
  ...packagesSchema,
  Quittungsmappe: {
    key: ["belegkennung", "belegnummer"],
    collections: {
      sammelstelle: { key: ["sammelstellenname"], mutable: true },
      stichworte: { key: ["stichwortliste"], list: true, mutable: true },
    },
    indexes: { betragszahl: "integer", zeitpunktangabe: "string" },
  },
};
const ORG = "kolibriverwaltung";
const ACCOUNT = "marguerite.yourcenar@example.org";
const PASSPHRASES = ["ein-erster-geheimer-satz", "und-ein-zweiter-geheimer"];

const receipts = Array.from({ length: 200 }, (_, n) => ({
  belegkennung: `belegkennung-${n % 7}-vermerk`,
  belegnummer: `nummerierung/${n}/laufend`,
  sammelstellenname: `sammelstelle-${["nordwesten", "suedosten", "mittelland"][n % 3]}`,
  stichwortliste: [`stichwort-${n % 11}-eintrag`, `schlagwort-${n % 5}-eintrag`],
  betragszahl: n,
  zeitpunktangabe: `zeitpunkt-2026-11-${(n % 28) + 1}-angabe`,
  bemerkungstext: `Ein langer Vermerk \u00fcber die Quittung mit der Nummer ${n}, den sonst niemand schreibt`,
  verschachtelt: { innenwertname: [`innenwert-${n}-verschachtelt`, true, null] },
}));

/** Every string of a value, and every name in it. */
function textsOf(value) {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [name, ...textsOf(inner)]);
}

const moved = { ...receipts[0], sammelstellenname: "sammelstelle-umgezogene", bemerkungstext: "Nachtraeglich geaendert" };
const shaS = (text) => createHash("sha256").update(text).digest().subarray(3, 19).toString("base64url");
const pks = [
  ...receipts.map((one) => shaS(`${one.belegkennung}/${one.belegnummer}`)),
  ...some(300).map(({ name }) => shaS(name)),
];
const secrets = [schema, receipts, some(300), moved, ORG, ACCOUNT, PASSPHRASES, pks].flatMap(textsOf);

/** A server with the data, the page's site, and a list of every address and title that the browser showed. */
async function setUp(t) {
  const server = await makeServer(t, { schema });
  await server.import(ORG, "Quittungsmappe", receipts);
  await server.import(ORG, "Package", some(300));
  await server.start();
  return { server, site: await startSite(t) };
}

function watch(context, page) {
  const shown = { addresses: [], titles: [] };
  context.on("request", (request) => shown.addresses.push(request.url()));
  page.on("websocket", (socket) => shown.addresses.push(socket.url()));
  page.on("framenavigated", (frame) => shown.addresses.push(frame.url()));
  shown.look = async () => shown.titles.push(await page.title(), await page.evaluate(() => document.title));
  return shown;
}

/** The texts that the page's own profile contains without any session. There are none if the texts are well chosen. */
async function controlHits(t, site, needles) {
  const browser = await openBrowser(t);
  const page = await browser.page(site.url);
  await page.evaluate(async () => {
    const { rehearsal } = await import("/pkg/rehearsal.js");
    await window.page.init(undefined, { rehearsal });
  });
  await browser.close();
  const { hits } = await search(browser.profile, needles);
  return new Set(hits.map(({ text }) => text));
}

/** The actions of a session's life, except changes of mode. */
async function use(page, server) {
  await page.evaluate(async (passphrases) => {
    const { session } = window.page.sessions.main;
    await window.page.loaded("main", "Quittungsmappe", {});
    await window.page.loaded("main", "Quittungsmappe", { sammelstellenname: "sammelstelle-nordwesten" });
    await window.page.loaded("main", "Quittungsmappe", { stichwortliste: "stichwort-3-eintrag" });
    await window.page.loaded("main", "Package", { section: "games" });
    await window.page.loaded("main", "Package", {});
    await session.query("Quittungsmappe").where("betragszahl", ">=", 100).docs();
    await session.get("Quittungsmappe", ["belegkennung-1-vermerk", "nummerierung/1/laufend"]);
    session.unsubscribe("Package", { section: "games" });
    await window.page.whenStatus("main", ({ phase }) => phase === "live");
    if (session.status.mode === "synced") await session.changePassphrase(...passphrases);
  }, PASSPHRASES);
  const arrived = page.evaluate(() =>
    window.page
      .whenDocs("main", "Quittungsmappe", {}, (docs) => docs.some((doc) => doc.bemerkungstext.startsWith("Nachtraeglich")))
      .then(() => {}),
  );
  await server.import(ORG, "Quittungsmappe", [moved, { ...receipts[1], _deleted: true }]);
  await arrived;
}

function assertNoSecrets(shown) {
  // By the protocol, the endpoint's address contains the org.
  const texts = new Needles(secrets.filter((text) => text !== ORG));
  for (const shownText of [...shown.addresses, ...shown.titles]) {
    for (const text of [shownText, decodeURIComponent(shownText)]) {
      texts.find(Buffer.from(text), ({ text: secret, form }) => assert.fail(`${shownText} shows ${secret} in ${form}`));
    }
  }
}

const hex = (text, encoding) => Buffer.from(text, encoding).toString("hex");

/** A row in clear, in each form that a program could write: the search's name for the form, and the way to write it. */
const PLANTED_FORMS = [
  ["UTF-8", (text) => Buffer.from(text)],
  ["UTF-16", (text) => Buffer.from(text, "utf16le")],
  // With one character beyond Latin-1, the engine keeps the whole text in UTF-16.
  ["UTF-16", (text) => `${text}\u2192`],
  ["base64 of UTF-8", (text) => Buffer.from(text).toString("base64")],
  ["base64url of UTF-8", (text) => Buffer.from(text).toString("base64url")],
  ["base64 of UTF-16", (text) => Buffer.from(text, "utf16le").toString("base64")],
  ["hexadecimal of UTF-8", (text) => hex(text, "utf8")],
  ["hexadecimal of UTF-8", (text) => hex(text, "utf8").toUpperCase()],
  ["hexadecimal of UTF-16", (text) => hex(text, "utf16le")],
];

/** Writes values into the store's table of pages, as an application that forgot to seal them would. */
const plant = (page, values) =>
  page.evaluate(async (list) => {
    const [{ name }] = await window.page.stores();
    await window.page.alter(name, "p", (store) => {
      list.forEach(({ bytes, value }, i) => store.put(bytes ? Uint8Array.from(bytes) : value, `planted-${i}`));
    });
  }, values);

test("after a full encrypted run the profile holds no plaintext, and the search would find some", { timeout: 120_000 }, async (t) => {
  const { server, site } = await setUp(t);
  const browser = await openBrowser(t);
  let page = await browser.page(site.url);
  const shown = watch(browser.context, page);
  const options = { org: ORG, account: ACCOUNT, schema, server: server.url, passphrase: PASSPHRASES[0] };
  await page.evaluate((o) => window.page.start("main", o).then(() => {}), options);
  await use(page, server);
  const defs = await page.evaluate(async () => {
    const { session } = window.page.sessions.main;
    await session.setMode("avion");
    const subscribed = session.subscriptions();
    await session.close();
    return subscribed;
  });
  assert.ok(defs.includes(`Quittungsmappe/sammelstelle@${shaS("sammelstelle-nordwesten")}`), `${defs}`);
  await shown.look();
  assertNoSecrets(shown);
  await visit(page, site.url);
  const again = { ...options, passphrase: PASSPHRASES[1], mode: "avion" };
  const count = await page.evaluate(async (o) => {
    await window.page.start("main", o);
    const docs = await window.page.whenDocs("main", "Quittungsmappe", {}, (list, ready) => ready);
    await window.page.sessions.main.session.lock();
    return docs.length;
  }, again);
  assert.equal(count, receipts.length - 1);
  await browser.close();

  const needles = new Needles([...secrets, ...defs]);
  const known = await controlHits(t, site, needles);
  assert.ok(known.size < needles.texts.length / 100, `the control holds ${[...known]}`);
  const sealed = await search(browser.profile, needles);
  console.log(`# ${needles.texts.length} texts (known to the control: ${[...known].join(", ")}) in ${sealed.files} files, ${sealed.bytes} bytes`);
  assert.deepEqual(sealed.hits.filter(({ text }) => !known.has(text)), []);

  // The same search finds text written in clear, whether the browser packed it or not.
  await browser.open();
  page = await browser.page(site.url);
  const planted = receipts.slice(50, 60);
  // Each form has its own row, with a number that no other row has.
  const formed = PLANTED_FORMS.map(([form, write], i) => ({ form, row: receipts[60 + i], written: write(JSON.stringify(receipts[60 + i])) }));
  const values = formed.map(({ written }) => (typeof written === "string" ? { value: written } : { bytes: [...written] }));
  await plant(page, [...planted.map((value) => ({ value })), ...values]);
  await browser.close();
  const clear = await search(browser.profile, needles);
  const found = new Set(clear.hits.map(({ text }) => text));
  const missed = new Needles(textsOf(planted)).texts.filter((text) => !found.has(text));
  assert.deepEqual(missed, [], "every planted text is found");
  const foundAs = new Set(clear.hits.map(({ text, form }) => `${form.split(",")[0]}: ${text}`));
  for (const { form, row } of formed) {
    const { texts } = new Needles(textsOf(row));
    assert.ok(texts.includes(row.bemerkungstext));
    assert.deepEqual(texts.filter((text) => !foundAs.has(`${form}: ${text}`)), [], `every text planted in ${form} is found`);
  }
});

test("after an incognito run there is no database, no storage and no plaintext", { timeout: 120_000 }, async (t) => {
  const { server, site } = await setUp(t);
  const browser = await openBrowser(t);
  const page = await browser.page(site.url);
  const shown = watch(browser.context, page);
  const options = { org: ORG, account: ACCOUNT, schema, server: server.url, mode: "incognito" };
  await page.evaluate((o) => window.page.start("main", o).then(() => {}), options);
  await use(page, server);
  const left = async () =>
    page.evaluate(async () => ({
      databases: await indexedDB.databases(),
      storage: [localStorage.length, sessionStorage.length],
      caches: await caches.keys(),
      workers: (await navigator.serviceWorker.getRegistrations()).length,
      files: (await Array.fromAsync((await navigator.storage.getDirectory()).keys())).length,
      cookies: document.cookie,
    }));
  const nothing = { databases: [], storage: [0, 0], caches: [], workers: 0, files: 0, cookies: "" };
  assert.deepEqual(await left(), nothing);
  await page.evaluate(() => window.page.sessions.main.session.close());
  assert.deepEqual(await left(), nothing);
  await shown.look();
  assertNoSecrets(shown);
  await browser.close();
  const needles = new Needles(secrets);
  const known = await controlHits(t, site, needles);
  const { hits, files, bytes } = await search(browser.profile, needles);
  console.log(`# ${needles.texts.length} texts in ${files} files, ${bytes} bytes`);
  assert.deepEqual(hits.filter(({ text }) => !known.has(text)), []);
});
