// An adapter object instead of a URL: messages as objects, as JSON text and as msgpack bytes.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { startSite } from "../support/site.mjs";

const schema = {
  Note: { key: ["id"], collections: { topic: { key: ["topic"], mutable: true } }, properties: { text: "string" } },
};

/** In the page: makes a server of a few notes without a network, as `window.backend`. */
async function installBackend(form) {
  const { encode } = await import("/msgpack/index.mjs");
  const pkOf = async (key) => {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key)));
    return btoa(String.fromCharCode(...digest.subarray(3, 19))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const notes = new Map();
  let clock = 1_000_000;
  const backend = { form, notes, listened: [], stopped: 0, requests: [], override: undefined };
  const write = (message) => {
    if (backend.form === "object") return message;
    if (backend.form === "text") return JSON.stringify(message);
    // In msgpack a document's data is bytes.
    const packed = structuredClone(message);
    for (const part of packed.parts ?? []) for (const row of part.rows) if (row.data) row.data = encode(row.data);
    return encode(packed);
  };
  backend.put = async (note) => {
    const held = notes.get(note.id);
    notes.set(note.id, { pk: await pkOf(note.id), v: ++clock, note, was: held?.note.topic });
    backend.on?.(write({ hints: backend.listened.at(-1).map((def) => [def, clock]) }));
  };
  backend.push = async (note) => {
    notes.set(note.id, { pk: await pkOf(note.id), v: ++clock, note });
    const row = { pk: await pkOf(note.id), v: clock, data: note };
    const parts = [{ def: "Note", rows: [row], left: [] }];
    backend.on(write({ epoch: [1, "e"], now: clock, delta: 10, seq: 0, parts }));
  };
  const topicOf = async (def) => {
    for (const { note, was } of notes.values()) {
      for (const topic of [note.topic, was]) if (topic && def === `Note/topic@${await pkOf(topic)}`) return topic;
    }
    return undefined;
  };
  backend.adapter = {
    async sync(request) {
      backend.requests.push(request);
      const { override } = backend;
      backend.override = undefined;
      if (override) return override(request);
      const parts = [];
      for (const [def, v] of request.subs) {
        const topic = await topicOf(def);
        const part = { def, rows: [], left: [] };
        for (const one of [...notes.values()].sort((a, b) => a.v - b.v)) {
          if (one.v < v) continue;
          const isIn = def === "Note" || one.note.topic === topic;
          if (isIn) part.rows.push({ pk: one.pk, v: one.v, data: one.note });
          else if (v > 0 && one.was === topic) part.left.push([one.pk, one.v]);
        }
        if (v === 0) part.present = part.rows.map(({ pk }) => pk);
        parts.push(part);
      }
      return write({ p: 1, epoch: [1, "e"], now: clock, delta: 10, seq: 0, results: [], parts });
    },
    listen(defs, on) {
      Object.assign(backend, { on });
      backend.listened.push(defs);
      return () => {
        backend.stopped++;
      };
    },
  };
  window.backend = backend;
}

async function setUp(t) {
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  return { page: await browser.page(site.url) };
}

for (const form of ["object", "text", "bytes"]) {
  test(`an adapter that speaks by ${form} is pulled from and listened to`, { timeout: 60_000 }, async (t) => {
    const { page } = await setUp(t);
    await page.evaluate(installBackend, form);
    const result = await page.evaluate(async (schema) => {
      const { backend, page: e2e } = window;
      backend.listened.push([]);
      await backend.put({ id: "one", topic: "red", text: "first", raw: backend.form === "text" ? null : new Uint8Array([1, 2, 255]) });
      await backend.put({ id: "two", topic: "blue", text: "second" });
      backend.listened.pop();
      const session = await e2e.start("main", { org: "o", schema, server: backend.adapter, key: new Uint8Array(32) });
      const first = [...(await e2e.loaded("main", "Note", {})), ...(await e2e.loaded("main", "Note", { topic: "red" }))];
      await e2e.whenStatus("main", ({ phase }) => phase === "live");
      // A hint, then a pull; the note moves to another topic.
      await backend.put({ id: "one", topic: "blue", text: "moved" });
      await e2e.whenDocs("main", "Note", { topic: "red" }, (docs) => docs.length === 0);
      const [moved] = await e2e.whenDocs("main", "Note", {}, (docs) => docs[0].text === "moved");
      // A pushed part needs no pull.
      const asked = backend.requests.length;
      await backend.push({ id: "three", topic: "green", text: "pushed" });
      await e2e.whenDocs("main", "Note", {}, (docs) => docs.length === 3);
      const pulled = backend.requests.length - asked;
      await session.close();
      const { listened, stopped } = backend;
      return { first, moved, pulled, listened: listened.at(-1).length, calls: listened.length, stopped, request: backend.requests[0] };
    }, schema);
    assert.deepEqual(result.first.map(({ id, text }) => [id, text]), [["one", "first"], ["two", "second"], ["one", "first"]]);
    if (form !== "text") assert.deepEqual(Object.values(result.first[0].raw), [1, 2, 255], "bytes stay bytes");
    assert.deepEqual([result.moved.topic, result.pulled, result.listened], ["blue", 0, 2]);
    assert.equal(result.stopped, result.calls, "every listening was stopped");
    assert.deepEqual([result.request.p, result.request.ops], [1, []]);
  });
}

test("lists and queries are called back before the device is asked to write the change", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  await page.evaluate(installBackend, "bytes");
  const seen = await page.evaluate(async (schema) => {
    const { backend, page: e2e } = window;
    backend.listened.push([]);
    await backend.put({ id: "one", topic: "red", text: "first" });
    backend.listened.pop();
    const session = await e2e.start("main", { org: "o", schema, server: backend.adapter, key: new Uint8Array(32) });
    await e2e.loaded("main", "Note", {});
    await e2e.whenStatus("main", ({ phase }) => phase === "live");
    let log = [];
    const { put } = IDBObjectStore.prototype;
    IDBObjectStore.prototype.put = function (...record) {
      log.push("put");
      return put.apply(this, record);
    };
    session.live("Note", {}, (docs) => log.push(`list of ${docs.length}`));
    session.query("Note").orderBy("key").limit(9).live((docs) => log.push(`query of ${docs.length}`));
    /** The first entries of the log, without repeated ones, from a change until it is on the device. */
    const after = async (change) => {
      await session.flush();
      log = [];
      await change();
      await session.flush();
      return [...new Set(log)].slice(0, 3);
    };
    // The first change of each kind makes the index of the query.
    const pushes = [];
    for (const id of ["two", "three"]) pushes.push(await after(() => backend.push({ id, topic: "red", text: "pushed" })));
    const written = await after(() => session.put("Note", { id: "four", topic: "red", text: "written" }).saved);
    await session.close();
    return { pushed: pushes[1], written };
  }, schema);
  assert.deepEqual(new Set(seen.pushed.slice(0, 2)), new Set(["list of 3", "query of 3"]));
  assert.equal(seen.pushed[2], "put");
  assert.deepEqual(new Set(seen.written.slice(0, 2)), new Set(["list of 4", "query of 4"]));
  assert.equal(seen.written[2], "put");
});

test("what an adapter does amiss has a name, and passes", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  await page.evaluate(installBackend, "object");
  const results = await page.evaluate(async (schema) => {
    const { backend, page: e2e } = window;
    backend.listened.push([]);
    await backend.put({ id: "one", topic: "red", text: "first" });
    const session = await e2e.start("main", { org: "o", schema, server: backend.adapter, key: new Uint8Array(32) });
    await e2e.loaded("main", "Note", {});
    const { sync } = backend.adapter;
    const cycle = {};
    cycle.self = cycle;
    const wrong = {
      offline: () => Promise.reject(new TypeError("Failed to fetch")),
      unavailable: () => Promise.reject(Object.assign(new Error(), { code: "unavailable", retryAfter: 0.01 })),
      too_many: () => Promise.reject(Object.assign(new Error(), { status: 429, retryAfter: 0.01 })),
      forbidden: () => Promise.reject(Object.assign(new Error(), { status: 403 })),
      malformed: () => Promise.resolve(undefined),
      wrong_protocol: () => JSON.stringify({ p: 9 }),
      too_deep: async (request) => {
        const reply = await sync(request);
        reply.parts[0].rows[0].data = { id: "one", topic: "red", nested: JSON.parse("[".repeat(60) + "]".repeat(60)) };
        return reply;
      },
      server_error: () => {
        throw Object.assign(new Error(), { code: "server_error" });
      },
    };
    const malformed = [() => cycle, () => "<html>", () => "{", () => new Uint8Array([0xc1]), () => ({ p: 1, now: NaN }), () => 7];
    const seen = [];
    let n = 0;
    for (const [code, how] of [...Object.entries(wrong), ...malformed.map((one) => ["malformed", one])]) {
      backend.override = how;
      const failed = e2e.whenStatus("main", ({ error }) => error?.code === code);
      await backend.put({ id: "one", topic: "red", text: `text ${++n}` });
      const { error, phase } = await failed;
      await e2e.whenDocs("main", "Note", {}, ([doc]) => doc?.text === `text ${n}`);
      await e2e.whenStatus("main", (s) => s.phase === "live" && s.error === null);
      seen.push([code, phase, error.cure.length > 10]);
    }
    // An invalid frame is reported, and does no harm.
    backend.on("no frame at all");
    const { error } = await e2e.whenStatus("main", (s) => s.error !== null);
    seen.push([error.code, "frame", true]);
    await backend.put({ id: "one", topic: "red", text: "last" });
    await e2e.whenDocs("main", "Note", {}, ([doc]) => doc.text === "last");
    await session.close();
    return seen;
  }, schema);
  assert.equal(results.length, 15);
  for (const [code, phase, hasCure] of results.slice(0, -1)) assert.deepEqual([phase, hasCure], ["offline", true], code);
  assert.deepEqual(results.at(-1), ["malformed", "frame", true]);
});

test("an adapter without listen is pulled, and one that is none is refused", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  await page.evaluate(installBackend, "object");
  const result = await page.evaluate(async (schema) => {
    const { backend, page: e2e } = window;
    backend.listened.push([]);
    await backend.put({ id: "one", topic: "red", text: "first" });
    const options = { org: "o", schema, key: new Uint8Array(32) };
    const bad = [];
    for (const server of [{}, { sync: 1 }, { sync: () => {}, listen: 1 }, 7]) {
      bad.push((await e2e.tryToStart("bad", { ...options, server })).code);
    }
    const session = await e2e.start("main", { ...options, server: { sync: backend.adapter.sync } });
    const docs = await e2e.loaded("main", "Note", {});
    const { phase } = await e2e.whenStatus("main", (status) => status.phase === "live");
    await session.close();
    return { bad, count: docs.length, phase, databases: (await window.page.stores()).length };
  }, schema);
  assert.deepEqual(result, { bad: Array(4).fill("bad_option"), count: 1, phase: "live", databases: 1 });
});
