// Bad input from the server. Each case is a named error with its cause and cure. Nothing is lost or half applied, and
// the session goes on by itself once the server works again.
import assert from "node:assert/strict";
import { test } from "node:test";

import { encode } from "@msgpack/msgpack";

import { openBrowser } from "../support/browser.mjs";
import { byName, schema, some } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const KINDS = ["refused", "not-found", "bug", "unexpected", "outdated", "retry", "unavailable", "unauthorized"];

const COUNT = 40;
const MSGPACK = {};
const HTML = { "content-type": "text/html; charset=utf-8" };
const PAGE = "<!doctype html><title>It works!</title>";

const fault = (code, kind) => encode({ code, kind, phase: 0, message: "as the test wants it" });
const answer = (status, headers, body) => () => ({ status, headers, body });
const nested = (depth) => Buffer.concat([Buffer.alloc(depth, 0x91), Buffer.from([0xc0])]);
const empty = { p: 1, epoch: [1, "r"], now: 5, delta: 2, seq: 0, results: [], parts: [] };

/** A valid message with one more field, which this version does not know. */
function withField(value) {
  const bytes = encode(empty);
  return Buffer.concat([Buffer.from([bytes[0] + 1]), bytes.subarray(1), encode("later"), value]);
}

/** Answers of the server, each with the code of the session's error. */
const ANSWERS = {
  "bytes that are no message": ["malformed", answer(200, MSGPACK, Buffer.from("c1ff00", "hex"))],
  "no bytes at all": ["malformed", answer(200, MSGPACK, "")],
  "an array in a message's place": ["malformed", answer(200, MSGPACK, encode([1, 2, 3]))],
  "another type of content": ["malformed", answer(200, { "content-type": "text/plain" }, encode(empty))],
  "a page of HTML": ["malformed", answer(200, HTML, PAGE)],
  "a page of HTML said to be msgpack": ["malformed", answer(200, MSGPACK, PAGE)],
  "a page of HTML with 404": ["malformed", answer(404, HTML, PAGE)],
  "a gateway's page with 502": ["server_error", answer(502, HTML, PAGE)],
  "a connection that breaks in the middle": ["offline", () => ({ headers: { "content-length": "900" }, body: "x", breaks: true })],
  "more bytes than any reply may have": ["too_large", answer(200, MSGPACK, Buffer.alloc(33 << 20, 0xc0))],
  "nesting without end": ["too_deep", answer(200, MSGPACK, withField(nested(100_000)))],
  "nesting in a message's place": ["too_deep", answer(200, MSGPACK, nested(100_000))],
  "another version of the protocol": ["wrong_protocol", answer(200, MSGPACK, encode({ ...empty, p: 2 }))],
  "400 and an older protocol": ["wrong_protocol", answer(400, MSGPACK, fault("wrong_protocol", "D"))],
  "400 and no fault": ["malformed", answer(400, MSGPACK, "")],
  "403": ["forbidden", answer(403, MSGPACK, fault("forbidden", "S"))],
  "404 and a fault": ["unknown_org", answer(404, MSGPACK, fault("unknown_org", "N"))],
  "408": ["timeout", answer(408, MSGPACK, fault("timeout", "X"))],
  "413": ["too_large", answer(413, MSGPACK, fault("too_large", "A"))],
  "429": ["too_many", answer(429, MSGPACK, fault("too_many", "O"))],
  "500": ["server_error", answer(500, MSGPACK, fault("server_error", "X"))],
  "500 that blames this device": ["server_error", answer(500, MSGPACK, fault("wrong_passphrase", "S"))],
  "503": ["unavailable", answer(503, MSGPACK, fault("unavailable", "O"))],
};

const parts = (change) => (reply) => {
  for (const part of reply.parts) for (const row of part.rows ?? []) change(row, part);
  return encode(reply);
};

/** Changes of a valid reply on its way, each with the code of the session's error. */
const REWRITES = {
  "a reply cut short": ["malformed", (_, bytes) => bytes.subarray(0, bytes.length - 5)],
  "bytes after the reply": ["malformed", (_, bytes) => Buffer.concat([bytes, Buffer.from([0xc0])])],
  "a version beyond 2^53": ["malformed", parts((row) => (row.v = 2 ** 60))],
  "a pk that is none": ["malformed", parts((row) => (row.pk = "a pk with spaces"))],
  "a row that says nothing": ["malformed", parts((row) => delete row.data)],
  "data that is no map": ["bad_value", parts((row) => (row.data = encode([1])))],
  "data with an extension": ["bad_value", parts((row) => (row.data = encode({ name: new Date() })))],
  "data cut short": ["bad_value", parts((row) => (row.data = row.data.subarray(0, 20)))],
  "data nested too deep": ["too_deep", parts((row) => (row.data = Buffer.concat([Buffer.from([0x81, 0xa1, 0x61]), nested(60)])))],
  "a def that nobody asked for, and a time that is none": ["malformed", (reply) => encode({ ...reply, now: -1 })],
};

async function setUp(t, options = {}) {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const [proxy, site, browser] = [await startProxy(t, server), await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  await page.evaluate(async (o) => {
    await window.page.start("main", { ...o, key: new Uint8Array(32) });
    await window.page.loaded("main", "Package", {});
    await window.page.whenStatus("main", ({ phase }) => phase === "live");
  }, { org: "demo", schema, server: proxy.url, ...options });
  return { server, proxy, page };
}

/** The documents of the list. It is not ready while its def is refused (R94). */
const held = (page, isReady = true) =>
  page.evaluate(([count, wanted]) => window.page.whenDocs("main", "Package", {}, (docs, ready) => docs.length === count && ready === wanted), [COUNT, isReady]);
/** Waits for an error of the session as a whole; or, if one document could not be read, of its def alone. */
const whenError = (page, code) =>
  page.evaluate(async (wanted) => {
    const told = ({ error, faults }) => error?.code === wanted || faults.Package?.code === wanted;
    const { error, faults, phase } = await window.page.whenStatus("main", told);
    return { error: error ?? faults.Package, isOfDef: error === null, phase };
  }, code);
const whenSummary = (page, summary) =>
  page.evaluate(async (text) => {
    await window.page.whenDocs("main", "Package", {}, (docs) => docs.every((doc) => doc.summary === text));
    const isWell = ({ phase, error, faults }) => phase === "live" && error === null && !("Package" in faults);
    return window.page.whenStatus("main", isWell);
  }, summary);

function assertNamed(error, code, what) {
  assert.equal(error.name, "EscaleError", what);
  assert.equal(error.code, code, what);
  assert.ok(KINDS.includes(error.kind), what);
  assert.ok(error.message.length > 10 && error.cure.length > 10, `${what}: ${JSON.stringify(error)}`);
}

/** Plays the cases on one session; `apply(proxy, how)` makes the server faulty. */
async function goThrough(t, cases, apply) {
  const { server, proxy, page } = await setUp(t);
  let documents = some(COUNT).sort(byName);
  for (const [what, [code, how]] of Object.entries(cases)) {
    apply(proxy, how);
    const failed = whenError(page, code).catch((error) => assert.fail(`${what}: ${error.message}`));
    // A change causes a hint. The session pulls, and meets the fault.
    const next = documents.map((one) => ({ ...one, summary: `After ${what}` }));
    await server.import("demo", "Package", next);
    const status = await failed;
    assertNamed(status.error, code, what);
    // The first write may recreate an org that is gone: the session polls for it.
    const phase = code === "unknown_org" ? "loading" : "offline";
    assert.equal(status.phase, status.isOfDef ? "live" : phase, what);
    assert.deepEqual(await held(page, !status.isOfDef), documents, `${what}: nothing is lost, nothing half applied`);
    documents = next;
    Object.assign(proxy, { answers: () => undefined, rewrites: () => undefined });
    if (status.isOfDef) {
      // Other defs are not blocked by it. This def is pulled again with them, or when something changes.
      documents = next.map((one) => ({ ...one, summary: `Healed of ${what}` }));
      await server.import("demo", "Package", documents);
    }
    const healed = await whenSummary(page, documents[0].summary);
    assert.equal(healed.storage, "ok", what);
  }
  assert.deepEqual(await held(page), documents);
  await page.evaluate(() => window.page.sessions.main.session.close());
}

test("what a server answers amiss has a name, and passes", { timeout: 120_000 }, async (t) => {
  await goThrough(t, ANSWERS, (proxy, how) => (proxy.answers = how));
});

test("a reply that is wrong in one place is applied nowhere", { timeout: 120_000 }, async (t) => {
  await goThrough(t, REWRITES, (proxy, how) => (proxy.rewrites = how));
});

test("Retry-After is obeyed, in seconds and as a date", { timeout: 60_000 }, async (t) => {
  const { server, proxy, page } = await setUp(t);
  const forms = { seconds: () => "2", date: () => new Date(Date.now() + 3_000).toUTCString() };
  for (const [form, text] of Object.entries(forms)) {
    const told = [];
    let refused;
    proxy.answers = (request) => {
      if (told.length > 0) return undefined;
      refused = request;
      told.push(text());
      return { status: form === "date" ? 503 : 429, headers: { "retry-after": told[0] } };
    };
    await server.import("demo", "Package", some(COUNT).map((one) => ({ ...one, summary: `After ${form}` })));
    await whenSummary(page, `After ${form}`);
    // The refused one may have been on its way before the import.
    const next = proxy.requests[proxy.requests.indexOf(refused) + 1];
    const least = form === "date" ? Date.parse(told[0]) - refused.at : 2_000;
    console.log(`# asked to wait ${least} ms, waited ${next.at - refused.at} ms`);
    // Both clocks are this machine's; a timer may end a millisecond early.
    assert.ok(next.at - refused.at >= least - 5);
  }
});

test("a refused def is told by its name, and the others go on", { timeout: 60_000 }, async (t) => {
  const wider = { ...schema, Unheard: { key: ["id"] } };
  wider.Package = { ...schema.Package, collections: { ...schema.Package.collections, priority: { key: ["priority"], mutable: true } } };
  const { server, page } = await setUp(t, { schema: wider });
  const status = await page.evaluate(async () => {
    const { session } = window.page.sessions.main;
    session.live("Unheard", {}, () => {});
    session.live("Package", { priority: "optional" }, () => {});
    return window.page.whenStatus("main", ({ faults }) => Object.keys(faults).length === 2);
  });
  for (const [def, error] of Object.entries(status.faults)) assertNamed(error, "unknown_def", def);
  assert.ok("Unheard" in status.faults, JSON.stringify(status.faults));
  await server.import("demo", "Package", some(COUNT).map((one) => ({ ...one, summary: "Goes on" })));
  await page.evaluate(() =>
    window.page.whenDocs("main", "Package", {}, (docs) => docs.every(({ summary }) => summary === "Goes on")).then(() => {}),
  );
});

test("an address where nothing listens, or something else does, keeps the session offline with the cause", { timeout: 60_000 }, async (t) => {
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  for (const [address, code] of [["http://127.0.0.1:9", "offline"], [`${site.url}nowhere`, "malformed"]]) {
    const status = await page.evaluate(async ([server, o]) => {
      const session = await window.page.start("main", { ...o, server, mode: "incognito" });
      session.live("Package", {}, () => {});
      const found = await window.page.whenStatus("main", ({ error }) => error !== null);
      await session.close();
      return found;
    }, [address, { org: "demo", schema }]);
    assertNamed(status.error, code, address);
    assert.equal(status.phase, "offline");
  }
});
