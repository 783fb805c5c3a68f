// Writes, through the public package against the real server: saved, accepted, offline, refused, in conflict, swept.
import assert from "node:assert/strict";
import { test } from "node:test";

import { onServer, openWriter, writingWorld } from "../support/writing.mjs";

const inTime = { timeout: 45_000 };
const whenDrained = (page, name = "main") =>
  page.evaluate((one) => window.page.whenStatus(one, ({ pending, phase }) => pending === 0 && phase === "live"), name);

/** Stops the server, and waits until the page knows. */
async function goOffline({ server, page }) {
  const offline = page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "offline"));
  await server.stop("SIGKILL");
  await offline;
}

test("each kind of write is saved, then accepted, and another session reads what it wrote", inTime, async (t) => {
  const { page, session } = await writingWorld(t);
  await openWriter(page, session);
  const { heard, value, versions } = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    const heard = [];
    const follow = (name, operation) => {
      heard.push([name]);
      const mine = heard.at(-1);
      operation.saved.then((where) => mine.push(where));
      return operation.accepted.then((accepted) => (mine.push("accepted"), accepted));
    };
    const writes = [
      follow("put", writer.put("Note", { id: "one", box: "in", text: "first", size: 1 })),
      follow("put", writer.put("Note", { id: "two", box: "in", text: "second", size: 2 })),
      follow("patch", writer.patch("Note", ["one"], { text: "changed", size: undefined })),
      follow("delete", writer.delete("Note", ["two"])),
      follow("run", writer.run("counter.add", { key: ["visits"], by: 2 })),
      follow("batch", writer.batch((tx) => {
        tx.run("counter.add", { key: ["visits"], by: 3 });
        tx.put("Note", { id: "three", box: "out" });
      })),
    ];
    const accepted = await Promise.all(writes);
    return { heard, value: accepted[4].value, versions: accepted.map(({ v }) => v) };
  });
  assert.deepEqual(heard, ["put", "put", "patch", "delete", "run", "batch"].map((name) => [name, "device", "accepted"]));
  assert.equal(value, 2, "what the operation returned");
  assert.ok(versions.every((v, i) => Number.isSafeInteger(v) && (i === 0 || v >= versions[i - 1])), `${versions}`);
  assert.deepEqual(await onServer(page, session, "Counter"), [{ id: "visits", n: 5 }]);
  assert.deepEqual(await onServer(page, session, "Note"), [{ id: "one", box: "in", text: "changed" }, { id: "three", box: "out" }]);
});

test("what is written offline shows at once, survives a reload, and is done once whatever becomes of the answers", inTime, async (t) => {
  const world = await writingWorld(t);
  const { server, proxy, page, session, restart } = world;
  await openWriter(page, session);
  await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    for (const n of [1, 2, 3]) writer.put("Note", { id: `n${n}`, box: "in", text: "", size: n });
    await writer.run("counter.add", { key: ["visits"], by: 1 }).accepted;
    // From here on, accepted documents are shown without an overlay.
    await window.page.whenDocs("main", "Note", {}, (docs) => docs.length === 3 && docs.every((doc) => !writer.meta(doc).pending));
    await Promise.all(["in", "out"].map((box) => writer.collection("Note", { box }).whenReady()));
  });
  await goOffline(world);
  const ADDS = 40;
  const shown = await page.evaluate(async (adds) => {
    const { session: writer } = window.page.sessions.main;
    const [inBox, outBox] = ["in", "out"].map((box) => writer.collection("Note", { box }));
    const last = [
      writer.patch("Note", ["n1"], { box: "out", size: 10 }),
      writer.delete("Note", ["n2"]),
      writer.put("Note", { id: "n4", box: "in", text: "new", size: 20 }),
      ...Array.from({ length: adds }, () => writer.run("counter.add", { key: ["visits"], by: 1 })),
    ];
    await Promise.all(last.map(({ saved }) => saved));
    await window.page.whenDocs("main", "Note", { box: "out" }, (docs) => docs.length === 1);
    const query = await writer.query("Note").where("size", ">=", 3).docs();
    const [counter] = await window.page.whenDocs("main", "Counter", {}, ([doc]) => doc?.n === adds + 1);
    return {
      boxes: [inBox, outBox].map(({ docs }) => docs.map(({ id }) => id)),
      query: query.map(({ id }) => id),
      pending: writer.pending().length,
      meta: writer.meta(counter).pending,
    };
  }, ADDS);
  const expected = { boxes: [["n3", "n4"], ["n1"]], query: ["n1", "n3", "n4"], pending: ADDS + 3, meta: true };
  assert.deepEqual(shown, expected);

  await restart();
  await openWriter(page, session, { offline: true });
  const after = await page.evaluate(async (adds) => {
    const { session: writer } = window.page.sessions.main;
    const { whenDocs } = window.page;
    const boxes = [
      await whenDocs("main", "Note", { box: "in" }, (docs) => docs.length === 2),
      await whenDocs("main", "Note", { box: "out" }, (docs) => docs.length === 1),
    ];
    const [counter] = await whenDocs("main", "Counter", {}, ([doc]) => doc?.n === adds + 1);
    const query = await writer.query("Note").where("size", ">=", 3).docs();
    const ids = (docs) => docs.map(({ id }) => id);
    return { boxes: boxes.map(ids), query: ids(query), pending: writer.pending().length, meta: writer.meta(counter).pending };
  }, ADDS);
  assert.deepEqual(after, expected, "all of it is there after the reload");

  // Back online: the first answers are lost, so the same operations are sent again.
  let lost = 0;
  proxy.loses = ({ ops }) => ops.length > 0 && lost++ < 2;
  const numbers = page.evaluate(() => {
    const seen = [];
    window.page.sessions.main.session.live("Counter", {}, ([doc]) => doc && seen.push(doc.n));
    return window.page.whenStatus("main", ({ pending, phase }) => pending === 0 && phase === "live").then(() => seen);
  });
  await server.start();
  const seen = await numbers;
  assert.ok(seen.every((n) => n === ADDS + 1), `what is shown never goes back: ${seen}`);
  assert.ok(lost >= 2, "answers were lost");
  const sent = proxy.requests.flatMap(({ ops }) => ops.map(({ id }) => id));
  assert.ok(sent.length > new Set(sent).size, "and the same operations sent again");
  assert.deepEqual(await onServer(page, session, "Counter"), [{ id: "visits", n: ADDS + 1 }]);
  assert.deepEqual((await onServer(page, session, "Note")).map(({ id, box }) => [id, box]), [["n1", "out"], ["n3", "in"], ["n4", "in"]]);
});

test("a refused write is amended, tried again or discarded; what depends on it waits, the rest goes on", inTime, async (t) => {
  const { page, session, restart } = await writingWorld(t);
  await openWriter(page, session);
  const note = (id, code) => ({ id, box: "in", code });
  const first = await page.evaluate(async ([taken, refused]) => {
    const { session: writer } = window.page.sessions.main;
    await writer.put("Note", taken).accepted;
    window.refusedPut = writer.put("Note", refused);
    window.heldPatch = writer.patch("Note", ["b"], { text: "behind" });
    const beside = writer.put("Note", { id: "c", box: "in" });
    const list = await window.page.whenRefused("main", (all) => all.length === 1);
    await beside.accepted;
    const states = writer.pending().map(({ name, state }) => [name, state]);
    const seen = await window.page.whenDocs("main", "Note", {}, (docs) => docs.length === 2);
    return { list, states, seen: seen.map(({ id }) => id) };
  }, [note("a", "x"), note("b", "x")]);
  const [{ name, args, error }] = first.list;
  assert.deepEqual([name, args.class, args.data.code, error.code], ["doc.put", "Note", "x", "not_unique"]);
  assert.ok(error.cure.length > 10 && error.message.length > 10);
  assert.deepEqual(first.states, [["doc.patch", "held"]]);
  assert.deepEqual(first.seen, ["a", "c"], "what was refused is not shown");

  const amended = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    const [entry] = writer.refused.value;
    const refusal = await window.page.outcome(window.refusedPut.accepted);
    const { accepted } = entry.amend({ ...entry.args, data: { ...entry.args.data, code: "y" } });
    await Promise.all([accepted, window.heldPatch.accepted]);
    return [refusal, await window.page.outcome(window.refusedPut.accepted), writer.refused.value.length];
  });
  assert.deepEqual(amended, [{ failed: "not_unique" }, { failed: "not_unique" }, 0], "the amendment is another operation");

  // The same again. It survives a reload and is refused a second time; then the reason disappears.
  await page.evaluate(async (data) => {
    const { session: writer } = window.page.sessions.main;
    const put = writer.put("Note", data);
    writer.put("Note", { id: "e", box: "in" }, { after: put });
    await window.page.whenRefused("main", (all) => all.length === 1);
    await put.saved;
  }, note("d", "x"));
  await restart();
  await openWriter(page, session);
  const retried = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    const [{ id }] = await window.page.whenRefused("main", (all) => all.length === 1);
    writer.refused.value[0].retry();
    const [again] = await window.page.whenRefused("main", (all) => all.length === 1 && all[0].id !== id);
    await writer.patch("Note", ["a"], { code: undefined }).accepted;
    const { accepted } = writer.refused.value[0].retry();
    await accepted;
    await window.page.whenStatus("main", ({ pending }) => pending === 0);
    return again.error.code;
  });
  assert.equal(retried, "not_unique");

  const discarded = await page.evaluate(async (data) => {
    const { session: writer } = window.page.sessions.main;
    const put = writer.put("Note", data);
    const after = writer.put("Note", { id: "g", box: "in" }, { after: put });
    const refusal = await window.page.outcome(put.accepted);
    writer.refused.value[0].discard();
    await after.accepted;
    return refusal;
  }, note("f", "x"));
  assert.deepEqual(discarded, { failed: "not_unique" });
  const stored = await onServer(page, session, "Note");
  assert.deepEqual(stored.map(({ id, code, text }) => [id, code, text].filter((one) => one)), [["a"], ["b", "y", "behind"], ["c"], ["d", "x"], ["e"], ["g"]]);
});

test("written in avion while somebody else wrote: each class settles its conflicts in its own way", inTime, async (t) => {
  const { page, proxy, session } = await writingWorld(t);
  const classes = ["Asked", "Kept", "Mine", "Merged", "Settled"];
  await openWriter(page, session, { classes });
  const { flight, outcomes, refused } = await page.evaluate(async ([options, all]) => {
    const { defineSchema, open, outcome, sessions, whenDocs, whenRefused, whenStatus } = window.page;
    const { session: writer } = sessions.main;
    const first = { id: "x", a: 1, b: 1 };
    await Promise.all(all.map((one) => writer.put(one, first).accepted));
    await Promise.all(all.map((one) => whenDocs("main", one, {}, ([doc]) => doc && !writer.meta(doc).pending)));
    await writer.setMode("avion");
    // Messages in transit arrive meanwhile.
    await writer.inspect();
    const flight = [Date.now()];
    const conflicting = all.map((one) => writer.patch(one, ["x"], { a: 5 }));
    const chained = writer.patch("Merged", ["x"], { c: 7 });
    await Promise.all(conflicting.map(({ saved }) => saved));
    flight.push(Date.now());
    // The other writer: another session, which resolves no conflict.
    const other = await open({ ...options, schema: defineSchema(options.schema), mode: "incognito" });
    await Promise.all(all.map((one) => other.put(one, { id: "x", a: 3, b: 9 }).accepted));
    await other.close();
    await writer.setMode("synced");
    const outcomes = Promise.all(conflicting.slice(1).map(({ accepted }) => outcome(accepted.then(() => "accepted"))));
    const [refused] = await whenRefused("main", (list) => list.length === 1);
    const result = { flight, outcomes: await outcomes, refused };
    await chained.accepted;
    await whenStatus("main", ({ pending, phase }) => pending === 0 && phase === "live");
    return result;
  }, [session, classes]);
  const asked = proxy.requests.filter(({ at }) => at > flight[0] && at < flight[1]);
  assert.deepEqual(asked, [], "nothing is asked in avion");
  assert.deepEqual(outcomes, [{ failed: "version_conflict" }, "accepted", "accepted", "accepted"]);
  assert.equal(refused.error.code, "version_conflict");
  assert.deepEqual(refused.theirs, { className: "Asked", v: refused.theirs.v, doc: { id: "x", a: 3, b: 9 } });
  assert.ok(refused.theirs.v > 0);
  assert.deepEqual([refused.base, refused.mine], [{ id: "x", a: 1, b: 1 }, { id: "x", a: 5, b: 1 }]);
  // Theirs is known, and the patch is made on it.
  await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    const [entry] = writer.refused.value;
    await entry.retry().accepted;
  });
  const expected = {
    Asked: { id: "x", a: 5, b: 9 },
    Kept: { id: "x", a: 3, b: 9 },
    Mine: { id: "x", a: 5, b: 1 },
    Merged: { id: "x", a: 5, b: 9, c: 7 },
    Settled: { id: "x", a: 7, b: 9 },
  };
  for (const [name, document] of Object.entries(expected)) {
    assert.deepEqual(await onServer(page, session, name), [document], name);
    const [shown] = await page.evaluate((one) => window.page.whenDocs("main", one, {}, () => true), name);
    assert.deepEqual(shown, document, `${name}, as it is shown`);
  }
  assert.ok(proxy.requests.every(({ status }) => status === 200));
});

test("what cannot be a write throws by name, and nothing is written or sent", inTime, async (t) => {
  const { page, proxy, session, restart } = await writingWorld(t);
  await openWriter(page, session);
  await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    await writer.put("Note", { id: "gone", box: "in" }).accepted;
    await writer.delete("Note", ["gone"]).accepted;
    await writer.put("Note", { id: "there", box: "in" }).accepted;
    await window.page.whenStatus("main", ({ pending }) => pending === 0);
    await window.page.whenDocs("main", "Note", {}, (docs) => docs.length === 1 && !writer.meta(docs[0]).pending);
  });
  const before = proxy.requests.flatMap(({ ops }) => ops).length;
  const { thrown, journals } = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    // The records of the journal, once everything is stored.
    const journal = async () => (await writer.flush(), (await writer.inspect()).store.counts.j);
    const large = "x".repeat(1 << 20);
    const bad = {
      class: () => writer.put("Nothing", { id: "a" }),
      "no key": () => writer.put("Note", { box: "in" }),
      "a short key": () => writer.patch("Note", [], { text: "x" }),
      "too large": () => writer.put("Note", { id: "a", box: "in", text: large }),
      "grows too large": () => writer.patch("Note", ["there"], { text: large }),
      tombstone: () => writer.patch("Note", ["gone"], { text: "x" }),
      "deleted twice": () => writer.delete("Note", ["gone"]),
      batch: () => writer.batch((tx) => (tx.put("Note", { id: "b", box: "in" }), tx.patch("Note", ["gone"], { text: "x" }))),
    };
    const before = await journal();
    const thrown = {};
    for (const [name, write] of Object.entries(bad)) {
      try {
        write();
        thrown[name] = "nothing";
      } catch (error) {
        thrown[name] = window.page.plainError(error).code;
      }
    }
    return { thrown, journals: [before, await journal()] };
  });
  assert.deepEqual(thrown, {
    class: "unknown_class", "no key": "bad_key", "a short key": "bad_key", "too large": "too_large",
    "grows too large": "too_large", tombstone: "not_found", "deleted twice": "not_found", batch: "not_found",
  });
  assert.ok(journals[0] > 0);
  assert.equal(journals[1], journals[0], "no record more is in the journal");
  await restart();
  await openWriter(page, session);
  assert.deepEqual(await page.evaluate(() => window.page.sessions.main.session.pending()), []);
  assert.equal(proxy.requests.flatMap(({ ops }) => ops).length, before, "nothing was sent");
  // A put restores it.
  await page.evaluate(() => window.page.sessions.main.session.put("Note", { id: "gone", box: "out" }).accepted);
  assert.deepEqual((await onServer(page, session, "Note")).map(({ id }) => id), ["gone", "there"]);
});

test("two pages add to one counter: each shows its own at once, and no addition is lost", inTime, async (t) => {
  const { page, session } = await writingWorld(t);
  await openWriter(page, session);
  const seen = await page.evaluate(async (options) => {
    const { openWriting, sessions, whenDocs } = window.page;
    const other = await openWriting("other", { ...options, mode: "incognito" });
    await other.collection("Counter", {}).whenReady();
    const writers = [sessions.main.session, other];
    const seen = writers.map((writer) => {
      const numbers = [];
      writer.live("Counter", {}, ([doc]) => doc && numbers.push(doc.n));
      return numbers;
    });
    const operations = Array.from({ length: 100 }, (_, n) => writers[n % 2].run("counter.add", { key: ["visits"], by: 1 }));
    await Promise.all(operations.map(({ accepted }) => accepted));
    await Promise.all(["main", "other"].map((name) => whenDocs(name, "Counter", {}, ([doc]) => doc.n === 100)));
    return seen;
  }, session);
  for (const numbers of seen) {
    assert.ok(numbers.length > 0 && numbers.every((n, i) => i === 0 || n >= numbers[i - 1]), `never goes back: ${numbers}`);
  }
  assert.deepEqual(await onServer(page, session, "Counter"), [{ id: "visits", n: 100 }]);
});

test("history tells what was written, and a sweep removes what its dry run told", inTime, async (t) => {
  const world = await writingWorld(t);
  const { page, session } = world;
  await openWriter(page, session);
  const before = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    for (let n = 1; n <= 6; n++) await writer.put("Note", { id: "n", box: "in", size: n }).accepted;
    await writer.delete("Note", ["n"]).accepted;
    await writer.put("Note", { id: "other", box: "in" }).accepted;
    return writer.history("Note", ["n"]);
  });
  const states = before.filter(({ type }) => type === "persist");
  assert.deepEqual(states.map(({ doc }) => doc?.size ?? null), [1, 2, 3, 4, 5, 6, null]);
  assert.ok(before.every(({ rowid }, i) => rowid > (before[i - 1]?.rowid ?? 0)), "numbered as they were written");
  assert.ok(before.every(({ commit, at, op }) => commit > 0 && at > 0 && op.length === 36));
  assert.equal(before.find(({ type }) => type !== "persist").type, "create");

  await goOffline(world);
  const { dry, again, kept, real, rest, after } = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    await writer.put("Note", { id: "n", box: "in", size: 7 }).saved;
    await writer.put("Note", { id: "n", box: "in", size: 8 }).saved;
    const dry = await writer.journal.sweep({ count: 2 });
    const again = await writer.journal.sweep({ count: 2 });
    const kept = await writer.history("Note", ["n"]);
    const real = await writer.journal.sweep({ count: 2, apply: true });
    const rest = await writer.journal.sweep({ count: 2 });
    return { dry, again, kept, real, rest, after: await writer.history("Note", ["n"]) };
  });
  assert.ok(dry.removed > 0 && dry.removed === dry.rowids.length && new Set(dry.rowids).size === dry.removed);
  assert.deepEqual(again, dry);
  assert.deepEqual(real, dry);
  assert.deepEqual(rest, { removed: 0, rowids: [] });
  assert.equal(kept.length - after.length, dry.removed, "only the first document has anything to forget");
  const left = new Set(after.map(({ rowid }) => rowid));
  assert.deepEqual(kept.map(({ rowid }) => rowid).filter((rowid) => !left.has(rowid)), dry.rowids, "those that it told");
  const stay = after.filter(({ type }) => type === "persist");
  // The newest two that the server has accepted, and all that it has not.
  assert.deepEqual(stay.map(({ doc, commit }) => [doc?.size ?? null, commit !== null]), [[6, true], [null, true], [7, false], [8, false]]);
  await world.server.start();
  await whenDrained(page);
  assert.ok((await page.evaluate(() => window.page.sessions.main.session.history("Note", ["n"]))).every(({ commit }) => commit > 0));
  for (const [rule, code] of [[{ count: 0 }, "bad_option"], [{ count: 101 }, "bad_option"], [{ before: "tomorrow" }, "bad_option"]]) {
    const failed = await page.evaluate((one) => window.page.outcome(window.page.sessions.main.session.journal.sweep(one)), rule);
    assert.deepEqual(failed, { failed: code }, JSON.stringify(rule));
  }
});

test("a token that is refused in the middle pauses, and nothing that was written is lost", inTime, async (t) => {
  const { page, proxy, session } = await writingWorld(t);
  await page.evaluate(async (options) => {
    window.waiting = [];
    const token = ({ refused }) => (refused ? new Promise((resolve) => window.waiting.push(resolve)) : "a-token");
    await window.page.openWriting("main", { ...options, token });
    await window.page.loaded("main", "Counter", {});
  }, session);
  let executed = 0;
  proxy.answers = ({ ops }) => (ops.length > 0 && executed++ > 0 ? { status: 401 } : undefined);
  const paused = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    const add = () => writer.run("counter.add", { key: ["visits"], by: 1 });
    await add().accepted;
    window.added = [add(), add()];
    const { phase, pending } = await window.page.whenStatus("main", (status) => status.phase === "paused");
    window.added.push(add());
    const saved = await Promise.all(window.added.map((one) => one.saved));
    return { phase, pending, saved, shown: (await writer.get("Counter", ["visits"])).n };
  });
  assert.equal(paused.phase, "paused");
  assert.deepEqual([paused.saved, paused.shown], [["device", "device", "device"], 4]);
  proxy.answers = () => undefined;
  await page.evaluate(async () => {
    window.waiting.forEach((resolve) => resolve("another-token"));
    await Promise.all(window.added.map(({ accepted }) => accepted));
  });
  assert.deepEqual(await onServer(page, session, "Counter"), [{ id: "visits", n: 4 }]);
});

test("what is written in incognito reaches the server and leaves nothing behind", inTime, async (t) => {
  const { page, session, restart } = await writingWorld(t);
  await openWriter(page, { ...session, mode: "incognito" });
  const result = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    const put = writer.put("Note", { id: "secret", box: "in", text: "nobody reads this" });
    const saved = await put.saved;
    await put.accepted;
    const past = await writer.history("Note", ["secret"]);
    return { saved, states: past.length };
  });
  assert.equal(result.saved, "memory");
  const left = () =>
    page.evaluate(async () => [(await indexedDB.databases()).length, localStorage.length, sessionStorage.length, (await caches.keys()).length]);
  assert.deepEqual(await left(), [0, 0, 0, 0]);
  await restart();
  await openWriter(page, { ...session, mode: "incognito" });
  const pending = await page.evaluate(async () => {
    const { session: writer } = window.page.sessions.main;
    return [writer.pending().length, (await writer.history("Note", ["secret"])).length];
  });
  assert.deepEqual(pending, [0, 0]);
  assert.deepEqual((await onServer(page, session, "Note")).map(({ id }) => id), ["secret"]);
  assert.deepEqual(await left(), [0, 0, 0, 0]);
});
