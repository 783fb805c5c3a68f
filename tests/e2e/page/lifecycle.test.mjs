// A session's life on a device: passphrases, locking, wiping, closing; several accounts and orgs; modes.
import assert from "node:assert/strict";
import { test } from "node:test";

import { visit } from "../support/browser.mjs";
import { byName, some } from "../support/packages.mjs";
import { packagesPage } from "../support/packages-page.mjs";
import { openWriter, writingSchema, writingWorld } from "../support/writing.mjs";

const COUNT = 60;

const setUp = (t) => packagesPage(t, COUNT, { passphrase: "the first passphrase" });

/** Opens, loads the whole class, and leaves the session open. */
const load = (page, options) =>
  page.evaluate(async (o) => {
    await window.page.start("main", o);
    const docs = await window.page.loaded("main", "Package", {});
    return docs.length;
  }, options);

const refusal = (page, options) =>
  page.evaluate((o) => window.page.tryToStart("other", o).then((error) => error?.code), options);

const databases = (page) => page.evaluate(async () => (await window.page.stores()).map(({ name }) => name).sort());

test("a changed passphrase opens, the old one does not, and no row is written again", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  await load(page, options);
  const { before, after, wrong } = await page.evaluate(async () => {
    const { session } = window.page.sessions.main;
    await window.page.whenStatus("main", ({ phase }) => phase === "live");
    await session.inspect();
    const earlier = await window.page.dump();
    const codes = [];
    for (const passphrases of [["not the first one", "x"], ["", "x"], ["the first passphrase", ""]]) {
      codes.push(await session.changePassphrase(...passphrases).then(() => "", ({ code }) => code));
    }
    await session.changePassphrase("the first passphrase", "the second passphrase");
    const later = await window.page.dump();
    await session.close();
    return { before: Object.values(earlier)[0].tables, after: Object.values(later)[0].tables, wrong: codes };
  });
  assert.deepEqual(wrong, ["wrong_passphrase", "bad_option", "bad_option"]);
  assert.deepEqual([after.p, after.j], [before.p, before.j], "rows are untouched");
  // The server may advance a collection's version in the meantime: that appends a record, and changes none.
  const state = new Map(after.s);
  assert.deepEqual(before.s.filter(([key, bytes]) => state.get(key) !== bytes), [], "state records are untouched");
  assert.ok(before.s.length > 0);
  assert.notDeepEqual(after.h, before.h);
  for (const mode of ["synced", "avion"]) {
    assert.equal(await refusal(page, { ...options, mode }), "wrong_passphrase");
  }
  await visit(page, page.url());
  assert.equal(await load(page, { ...options, passphrase: "the second passphrase", mode: "avion" }), COUNT);
});

test("lock and close end the session and keep the store; every call says so afterwards", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  for (const how of ["lock", "close"]) {
    assert.equal(await load(page, options), COUNT);
    const result = await page.evaluate(async (ending) => {
      const { session } = window.page.sessions.main;
      const collection = session.collection("Package", {});
      // All at once, in the middle of any work.
      session.live("Package", { section: "games" }, () => {});
      await Promise.all([session[ending](), session.close(), session.lock()]);
      const codes = [];
      for (const call of [
        () => session.get("Package", ["0ad"]),
        () => session.live("Package", {}, () => {}),
        () => session.collection("Package", {}),
        () => session.subscriptions(),
        () => session.setMode("avion"),
        () => session.changePassphrase("a", "b"),
        () => session.inspect(),
        () => session.flush(),
        () => session.wipe(),
        () => session.query("Package").where("size", ">", 1).docs(),
      ]) {
        codes.push(await (async () => call())().then(() => "no error", ({ code }) => code));
      }
      await session.close();
      return { codes, phase: session.status.phase, docs: collection.docs.length };
    }, how);
    assert.deepEqual(result, { codes: Array(10).fill("closed"), phase: "closed", docs: 0 }, how);
    assert.equal((await databases(page)).length, 1);
  }
  assert.equal(await load(page, { ...options, mode: "avion" }), COUNT);
});

test("wipe leaves no database, and avion has nothing to open", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  await load(page, options);
  await page.evaluate(() => window.page.sessions.main.session.wipe());
  assert.deepEqual(await databases(page), []);
  assert.equal(await refusal(page, { ...options, mode: "avion" }), "no_store");
  assert.deepEqual(await databases(page), []);
  assert.equal(await load(page, { ...options, passphrase: "another one" }), COUNT, "and all can be loaded anew");
});

test("accounts and orgs have stores of their own, open side by side", { timeout: 60_000 }, async (t) => {
  const { server, page, options } = await setUp(t);
  await server.import("second", "Package", some(7));
  const key = (n) => ({ ...options, passphrase: undefined, account: n < 2 ? "ada" : "grace", org: n % 2 ? "demo" : "second" });
  const counts = await page.evaluate(async (list) => {
    const results = [];
    for (const [n, o] of list.entries()) {
      await window.page.start(`s${n}`, { ...o, key: new Uint8Array(32).fill(n + 1) });
      results.push((await window.page.loaded(`s${n}`, "Package", {})).length);
    }
    return results;
  }, [0, 1, 2, 3].map(key));
  assert.deepEqual(counts, [7, COUNT, 7, COUNT]);
  const names = await databases(page);
  assert.equal(names.length, 4);
  for (const name of names) assert.match(name, /^escale1-[\w-]{22}$/);
  // Each opens with its own key alone, and wiping one leaves the others.
  const codes = await page.evaluate(async (list) => {
    const { sessions, tryToStart } = window.page;
    await sessions.s0.session.wipe();
    for (const n of [1, 2, 3]) await sessions[`s${n}`].session.close();
    const results = [];
    for (const [n, o] of list.entries()) {
      for (const other of [1, n + 1]) {
        const error = await tryToStart("again", { ...o, mode: "avion", key: new Uint8Array(32).fill(other) });
        results.push(error?.code ?? sessions.again.session.subscriptions().length);
        if (!error) await sessions.again.session.close();
      }
    }
    return results;
  }, [0, 1, 2, 3].map(key));
  assert.deepEqual(codes, ["no_store", "no_store", "wrong_passphrase", 1, "wrong_passphrase", 1, "wrong_passphrase", 1]);
});

test("synced and avion alternate: no call in avion, and what was missed comes afterwards", { timeout: 60_000 }, async (t) => {
  const { server, page, options } = await setUp(t);
  await load(page, options);
  await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "live"));
  const calls = [];
  page.on("request", (request) => calls.push(request.url()));
  page.on("websocket", (socket) => calls.push(socket.url()));
  for (const round of ["one", "two"]) {
    await page.evaluate(() => window.page.sessions.main.session.setMode("avion"));
    calls.length = 0;
    await server.import("demo", "Package", some(COUNT).map((one) => ({ ...one, summary: round })));
    const away = await page.evaluate(async () => {
      const { session } = window.page.sessions.main;
      // Events that make a session reconnect.
      for (const name of ["online", "pageshow"]) window.dispatchEvent(new Event(name));
      document.dispatchEvent(new Event("visibilitychange"));
      const docs = await window.page.whenDocs("main", "Package", {}, (_, ready) => ready);
      session.live("Package", { section: "admin" }, () => {});
      return { phase: session.status.phase, mode: session.status.mode, texts: docs.map(({ summary }) => summary) };
    });
    assert.deepEqual([away.phase, away.mode, calls], ["avion", "avion", []]);
    assert.ok(away.texts.every((text) => text !== round));
    const back = await page.evaluate(async (text) => {
      await window.page.sessions.main.session.setMode("synced");
      const docs = await window.page.whenDocs("main", "Package", {}, (list) => list.every(({ summary }) => summary === text));
      await window.page.whenStatus("main", ({ phase }) => phase === "live");
      return docs;
    }, round);
    assert.deepEqual(back, some(COUNT).map((one) => ({ ...one, summary: round })).sort(byName));
    assert.ok(calls.length > 0);
  }
  const codes = await page.evaluate(async (o) => {
    const { sessions, start } = window.page;
    const results = [await sessions.main.session.setMode("incognito").catch(({ code }) => code)];
    await sessions.main.session.close();
    await start("alone", { ...o, server: undefined, mode: "avion" });
    results.push(await sessions.alone.session.setMode("synced").catch(({ code }) => code));
    return results;
  }, options);
  assert.deepEqual(codes, ["bad_option", "bad_option"]);
});

test("subscriptions outlive their listeners, their session and their page; unsubscribing takes the documents away", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  await load(page, options);
  const before = await page.evaluate(async () => {
    const { session } = window.page.sessions.main;
    session.live("Package", { section: "games" }, () => {})();
    await window.page.loaded("main", "Package", { tags: "role::program" });
    const list = session.subscriptions();
    const [held] = session.collection("Package", {}).docs;
    const same = (await session.get("Package", [held.name])) === held;
    const frozen = Object.isFrozen(held) && Object.isFrozen(held.tags);
    await session.close();
    return { list, same, frozen };
  });
  assert.deepEqual([before.list.length, before.same, before.frozen], [3, true, true]);
  await visit(page, page.url());
  const after = await page.evaluate(async (o) => {
    const session = await window.page.start("main", { ...o, mode: "avion" });
    const list = session.subscriptions();
    session.unsubscribe("Package", {});
    session.unsubscribe("Package", { section: "games" });
    const { memory } = await session.inspect();
    await session.close();
    return { list, left: memory.documents };
  }, options);
  assert.deepEqual(after.list, before.list);
  assert.equal(after.left, some(COUNT).filter(({ tags }) => tags.includes("role::program")).length);
});

test("a refused batch gives its draft back on discard, in each tab and after a reload", { timeout: 60_000 }, async (t) => {
  const world = await writingWorld(t);
  world.session.passphrase = "of two tabs";
  world.session.schema = { ...writingSchema, Draft: { key: ["id"], local: true } };
  const tabs = [world.page, await world.browser.page(world.site.url)];
  for (const tab of tabs) await openWriter(tab, world.session, { classes: ["Note", "Draft"] });
  const draft = { id: "d", text: "Not ready yet" };
  const shows = (tab, wanted) =>
    tab.evaluate((docs) => window.page.whenDocs("main", "Draft", {}, (list) => JSON.stringify(list) === JSON.stringify(docs)).then(() => {}), wanted);
  const lists = (tab, count) => tab.evaluate((n) => window.page.whenRefused("main", (list) => list.length === n).then(() => {}), count);
  await tabs[0].evaluate(async (data) => {
    const { session } = window.page.sessions.main;
    await session.put("Draft", data).saved;
    await session.put("Note", { id: "first", box: "in", code: "taken" }).accepted;
  }, draft);
  await shows(tabs[1], [draft]);
  await tabs[1].evaluate(() => {
    window.page.sessions.main.session.batch((tx) => {
      tx.delete("Draft", ["d"]);
      tx.put("Note", { id: "second", box: "in", code: "taken" });
    });
  });
  for (const tab of tabs) {
    await lists(tab, 1);
    await shows(tab, []);
  }
  // The tab that wrote it decides, and follows the other one.
  await tabs[1].evaluate(() => window.page.sessions.main.session.refused.value[0].discard());
  for (const tab of tabs) {
    await lists(tab, 0);
    await shows(tab, [draft]);
  }
  await tabs[1].close();
  await world.restart();
  await openWriter(world.page, world.session, { classes: ["Note", "Draft"] });
  await shows(world.page, [draft]);
  assert.equal(await world.page.evaluate(() => window.page.sessions.main.session.status.drafts), 1);
});
