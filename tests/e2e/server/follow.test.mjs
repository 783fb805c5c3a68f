// The main use, through the public package: subscribe, receive changes live, stop the server, open in avion, return.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser, visit } from "../support/browser.mjs";
import { byName, inSection, packages, schema, some, withTag } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { makeServer, packagesServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const SECTION = "games";
const TAG = "use::gameplaying";
const PASSPHRASE = "correct horse battery staple";

/** The documents of both collections, in order. */
const held = (page) =>
  page.evaluate(
    async ([section, tag]) => {
      const ready = (match) => window.page.whenDocs("main", "Package", match, (docs, isReady) => isReady);
      return { section: await ready({ section }), tag: await ready({ tags: tag }) };
    },
    [SECTION, TAG],
  );

test("what is subscribed to follows live, is there in avion, and only changes come afterwards", { timeout: 120_000 }, async (t) => {
  const server = await packagesServer(t);
  // Otherwise the end of the import would arrive again with the changes.
  await server.whenSettled("demo");
  const [proxy, site, browser] = [await startProxy(t, server), await startSite(t), await openBrowser(t)];
  const options = { org: "demo", schema, server: proxy.url, passphrase: PASSPHRASE };
  const page = await browser.page(site.url);

  await page.evaluate((o) => window.page.start("main", o).then(() => {}), options);
  const expected = { section: inSection(SECTION).sort(byName), tag: withTag(TAG).sort(byName) };
  assert.deepEqual(await held(page), expected, "the numbers and the documents are those of the file");
  await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "live"));
  const full = proxy.bytesSince(0);
  console.log(`# first load: ${expected.section.length} + ${expected.tag.length} documents, ${full} bytes of replies`);

  // One document changes section, another its text.
  const moving = packages.find((one) => one.name === "0ad");
  const rewritten = expected.section.find((one) => one.name !== "0ad" && !one.tags.includes(TAG));
  assert.ok(moving.section === SECTION && moving.tags.includes(TAG));
  const moved = { ...moving, section: "science" };
  const changed = { ...rewritten, summary: "A summary that was changed on the server" };
  const followed = page.evaluate(
    async ([section, tag, summary]) => {
      const { whenDocs } = window.page;
      const times = await Promise.all([
        whenDocs("main", "Package", { section }, (docs) => !docs.some(({ name }) => name === "0ad")),
        whenDocs("main", "Package", { section }, (docs) => docs.some((doc) => doc.summary === summary)),
        whenDocs("main", "Package", { tags: tag }, (docs) => docs.some(({ name, section }) => name === "0ad" && section === "science")),
      ].map((promise) => promise.then(() => Date.now())));
      return Math.max(...times);
    },
    [SECTION, TAG, changed.summary],
  );
  const before = Date.now();
  console.log(`# ${await server.import("demo", "Package", [moved, changed])}`);
  const after = Date.now();
  const at = await followed;
  console.log(`# both collections follow ${at - after} ms after the import's end, ${at - before} ms after its start`);
  // The only time that is judged: the promise of live changes.
  assert.ok(at - after < 1_000, `the last of the changes came ${at - after} ms after the import's end`);
  const patched = (list) => list.map((one) => [moved, changed].find(({ name }) => name === one.name) ?? one);
  expected.section = patched(expected.section).filter((one) => one.section === SECTION);
  expected.tag = patched(expected.tag);
  assert.deepEqual(await held(page), expected);

  // A read of the device waits for writes in progress.
  await page.evaluate(() => window.page.sessions.main.session.inspect().then(() => {}));

  // No server any more, and a page that was never closed properly.
  await server.stop("SIGKILL");
  await visit(page, site.url);
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("websocket", (socket) => asked.push(socket.url()));
  await page.evaluate((o) => window.page.start("main", o).then(() => {}), { ...options, mode: "avion" });
  assert.deepEqual(await held(page), expected, "everything is there");
  assert.equal(await page.evaluate(() => window.page.sessions.main.session.status.phase), "avion");
  const elsewhere = asked.filter((url) => !url.startsWith(site.url));
  assert.deepEqual(elsewhere, [], "nothing is asked of the network in avion");

  // Meanwhile things change; then the server is there again.
  const later = { ...changed, summary: "Changed while the session was away" };
  const back = { ...moved, section: SECTION };
  await server.import("demo", "Package", [later, back]);
  await server.start();
  const first = proxy.requests.length;
  await page.evaluate(
    async ([section, tag, summary]) => {
      const { sessions, whenDocs } = window.page;
      await sessions.main.session.setMode("synced");
      await whenDocs("main", "Package", { section }, (docs) => docs.some((doc) => doc.summary === summary));
      await whenDocs("main", "Package", { tags: tag }, (docs) => docs.some(({ name, section }) => name === "0ad" && section === "games"));
      await window.page.whenStatus("main", ({ phase }) => phase === "live");
    },
    [SECTION, TAG, later.summary],
  );
  expected.section = [...patched(expected.section).map((one) => (one.name === later.name ? later : one)), back].sort(byName);
  expected.tag = expected.tag.map((one) => (one.name === back.name ? back : one));
  assert.deepEqual(await held(page), expected);
  const since = proxy.requests.slice(first);
  const bytes = proxy.bytesSince(first);
  console.log(`# coming back: ${since.length} requests, ${bytes} bytes of replies against ${full}: ${((100 * bytes) / full).toFixed(2)} %`);
  for (const [def, v, cursor] of since.flatMap((one) => one.subs)) {
    assert.ok(v > 0 && cursor === undefined, `${def} is asked from its version on`);
  }
  assert.ok(bytes < full / 20, "only what changed is transferred");
  await page.evaluate(() => window.page.sessions.main.session.close());
});

test("a collection is matched by its properties, whatever its name", { timeout: 60_000 }, async (t) => {
  const places = { place: { key: ["country", "city"] }, byWriter: { key: ["writers"], list: true } };
  const written = { Letter: { key: ["id"], collections: places } };
  const server = await makeServer(t, { schema: written });
  const letters = [
    { id: "1", country: "France", city: "Lyon", writers: ["Ada", "Grace"] },
    { id: "2", country: "France", city: "Paris", writers: ["Grace"] },
    { id: "3", country: "Lyon", city: "France", writers: ["Ada"] },
    { id: "4", country: "France", city: "Lyon", writers: [] },
  ];
  await server.import("demo", "Letter", letters);
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  const result = await page.evaluate(async (options) => {
    const session = await window.page.start("main", { ...options, key: new Uint8Array(32) });
    const ids = async (match) => (await window.page.loaded("main", "Letter", match)).map(({ id }) => id);
    const found = [
      await ids({ country: "France", city: "Lyon" }),
      await ids({ city: "Lyon", country: "France" }),
      await ids({ writers: "Ada" }),
    ];
    const count = session.subscriptions().length;
    session.unsubscribe("Letter", { city: "Lyon", country: "France" });
    const wrong = [{ byWriter: "Ada" }, { country: "France" }, { country: "France", city: "Lyon", writers: "Ada" }];
    const errors = wrong.map((match) => {
      try {
        return session.collection("Letter", match);
      } catch (error) {
        return window.page.plainError(error);
      }
    });
    return { found, count, left: session.subscriptions(), errors };
  }, { org: "demo", schema: written, server: server.url });
  assert.deepEqual(result.found, [["1", "4"], ["1", "4"], ["1", "3"]]);
  assert.equal(result.count, 2, "the order of the properties makes no other subscription");
  assert.equal(result.left.length, 1);
  assert.match(result.left[0], /^Letter\/byWriter@/);
  for (const { code, message } of result.errors) {
    assert.equal(code, "unknown_def");
    assert.match(message, /class Letter .*byWriter \{writers\}, place \{country, city\}$/);
  }
});

for (const format of ["msgpack", "json"]) {
  test(`in ${format}, a document is one object for as long as its version is`, { timeout: 60_000 }, async (t) => {
    const server = await makeServer(t);
    const documents = some(50);
    await server.import("demo", "Package", documents);
    await server.start();
    const [site, browser] = [await startSite(t), await openBrowser(t)];
    const page = await browser.page(site.url);
    await page.evaluate(async (o) => {
      await window.page.start("main", { ...o, key: new Uint8Array(32) });
      window.before = await window.page.loaded("main", "Package", {});
      await window.page.whenStatus("main", ({ phase }) => phase === "live");
    }, { org: "demo", schema, server: server.url, format });
    const changed = page.evaluate(async () => {
      const isThere = (docs) => docs.some(({ summary }) => summary === "Changed");
      const after = await window.page.whenDocs("main", "Package", {}, isThere);
      const { session } = window.page.sessions.main;
      const metas = [window.before[0], after[0], after[1]].map((doc) => session.meta(doc)?.deleted);
      return { same: after.filter((doc, i) => doc === window.before[i]).length, count: after.length, metas };
    });
    const [first] = [...documents].sort(byName);
    await server.import("demo", "Package", [{ ...first, summary: "Changed" }]);
    assert.deepEqual(await changed, { same: 49, count: 50, metas: [undefined, false, false] });
  });
}
