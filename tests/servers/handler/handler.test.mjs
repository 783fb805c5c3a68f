// `escale-handler` at its own interface: each sentence of docs/handler.md that the conformance kit does not see.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { decode, encode as encodeByLibrary } from "@msgpack/msgpack";
import { WebSocket } from "ws";

import { sizeOf } from "../../../handler/src/engine/values.mjs";
import { decodeMsgpack, encode } from "../../../handler/src/forms/index.mjs";
import { byTokens, createHandler, Fault, memory, shaS } from "../../../handler/src/index.mjs";
import { serve } from "../../../handler/src/node.mjs";
import { openSqlite } from "../../../handler/src/storage/sqlite.mjs";
import { postgres } from "../../../handler/src/storage/postgres.mjs";
import { startSeed } from "../../../testkit/effort.mjs";
import { randomFrom } from "../../e2e/support/in-page/random.js";
import { kinds, nextMessage, startPostgres } from "./support.mjs";

const SEED = startSeed();
const schema = { Note: { key: ["id"], collections: { box: { key: ["box"], mutable: true } } }, Draft: { key: ["id"], local: true } };
const postgresql = startPostgres();
after(() => postgresql.stop());
const all = await kinds(postgresql);

const isLater = (kind) => kind === "PostgreSQL" || kind === "a storage that answers later";

const made = (options = {}) => createHandler({ storage: memory(), schema, ...options });
const put = (id, seq, more = {}) => ({ id: `op-${id}-${seq}`, seq, name: "doc.put", args: { class: "Note", data: { id, ...more } }, at: 1 });
const run = (name, seq, args = {}) => ({ id: `op-${name}-${seq}`, seq, name, args, at: 1 });

async function post(handler, message, headers = {}, path = "/demo/sync") {
  const body = typeof message === "string" ? message : JSON.stringify({ p: 1, session: "s", ...message });
  const response = await handler.fetch(new Request(`http://server${path}`, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body }));
  return { status: response.status, headers: response.headers, reply: await response.json() };
}

/** An open socket that has been confirmed. */
async function follow(t, url, message = {}) {
  const socket = new WebSocket(`${url.replace("http", "ws")}/demo/live`);
  t.after(() => socket.terminate());
  await once(socket, "open");
  socket.send(JSON.stringify({ session: "s", subs: ["Note"], ...message }));
  await nextMessage(socket, ({ live }) => live);
  return socket;
}

async function serving(t, handler) {
  const server = await serve(handler, { port: 0 });
  t.after(() => server.close());
  return server;
}

for (const [kind, make] of all) {
  test(`${kind}: an operation of the application reads and writes several documents, and returns a value`, async (t) => {
    let runs = 0;
    const move = (documents, { from, to, n }) => {
      runs += 1;
      const [a, b] = [documents.get("Note", [from]), documents.get("Note", [to])];
      if (!a || a.n < n) throw new Fault("too_little", "A", "There is not enough.");
      a.n -= n;
      documents.put("Note", a);
      documents.patch("Note", [to], { n: b.n + n, note: undefined });
      return { left: documents.get("Note", [from]).n, of: documents.org };
    };
    const handler = made({ storage: await make(t), operations: { move } });
    const ops = [put("a", 1, { n: 5 }), put("b", 2, { n: 1, note: "x" }), run("move", 3, { from: "a", to: "b", n: 2 }), run("move", 4, { from: "a", to: "b", n: 9 })];
    const { reply } = await post(handler, { ops, subs: [["Note", 0]] });
    assert.deepEqual(reply.results[2].ok.value, { left: 3, of: "demo" });
    assert.deepEqual([reply.results[3].fault.code, reply.results[3].fault.message], ["too_little", "There is not enough."]);
    const rows = reply.parts[0].rows.map(({ data }) => [data.id, data.n, data.note]);
    assert.deepEqual(rows.sort(), [["a", 3, undefined], ["b", 3, undefined]]);
    assert.ok(isLater(kind) ? runs > 2 : runs === 2, "it begins again only where a storage answers later");
  });

  test(`${kind}: an operation that fails leaves nothing, and the session goes on`, async (t) => {
    const errors = [];
    const operations = {
      broken: (documents) => {
        documents.put("Note", { id: "left behind" });
        throw new Error("a bug with a secret");
      },
      async later() {},
      lenient: (documents) => {
        for (const id of ["x", "y"]) {
          try {
            documents.get("Note", [id]);
          } catch {
            // An operation may catch everything.
          }
        }
        return documents.get("Note", ["x"]) === undefined;
      },
    };
    const handler = made({ storage: await make(t), operations, onError: (error) => errors.push(error.message) });
    const ops = [run("broken", 1), run("later", 2), run("lenient", 3), put("a", 4)];
    const { reply } = await post(handler, { ops, subs: [["Note", 0]] });
    const { results } = reply;
    assert.deepEqual(results.map(({ fault, ok }) => fault?.code ?? ok.value ?? "ok"), ["internal", "internal", true, "ok"]);
    assert.doesNotMatch(results[0].fault.message, /secret/);
    assert.deepEqual(reply.parts[0].rows.map(({ data }) => data.id), ["a"]);
    assert.match(errors.join(), /a bug with a secret.*must not be async/);
  });
}

/** The bytes that the storage keeps of operations, sessions and their counts. */
const keptOf = async (storage) => {
  const rows = (table) => storage.read("demo", (tx) => tx.page("demo", table, { after: [0, ""], limit: 100_000 }));
  return JSON.stringify([await rows("#operations"), await rows("#sessions"), await rows("#readers")]).length;
};

for (const [kind, make] of all) {
  test(`${kind}: a refused write keeps no document, and one that comes again has it as it is now`, async (t) => {
    const storage = await make(t);
    const handler = made({ storage });
    await post(handler, { ops: [put("a", 1, { text: "x".repeat(100_000) })] });
    const before = await keptOf(storage);
    const patch = (seq) => ({ id: `patch-${seq}`, seq, name: "doc.patch", args: { class: "Note", key: ["a"], set: { n: seq }, ifVersion: 1 }, at: 1 });
    let sent = 0;
    for (let seq = 2; seq < 12; seq++) {
      const { reply } = await post(handler, { ops: [patch(seq)] });
      sent += JSON.stringify(patch(seq)).length;
      assert.equal(reply.results[0].fault.doc.data.text.length, 100_000);
    }
    const grown = (await keptOf(storage)) - before;
    assert.ok(grown <= 10 * sent, `${grown} bytes of ${sent}`);
    await post(handler, { ops: [put("a", 12, { text: "short" })] });
    const [again, unknown] = [await post(handler, { ops: [patch(3)] }), await post(handler, { ops: [patch(3), put("z", 99)] })];
    for (const { reply } of [again, unknown]) assert.deepEqual([reply.results[0].fault.code, reply.results[0].fault.doc.data.text], ["version_conflict", "short"]);
    await post(handler, { ops: [{ id: "gone", seq: 13, name: "doc.delete", args: { class: "Note", key: ["a"] }, at: 1 }] });
    assert.equal((await post(handler, { ops: [patch(3)] })).reply.results[0].fault.doc.deleted, true);
  });

  test(`${kind}: a caller that may not write leaves a few numbers, however much it sends`, async (t) => {
    const storage = await make(t);
    const authorize = byTokens({ w: { account: "w", orgs: ["demo"], role: "write" }, r: { account: "r", orgs: ["demo"], role: "read" } });
    const handler = made({ storage, authorize });
    const send = (session, ops, token = "r") => post(handler, { session, ops }, { Authorization: `Bearer ${token}` });
    const many = Array.from({ length: 20 }, (_, at) => put(`${at}`, at + 1));
    for (let session = 0; session < 20; session++) {
      const { reply } = await send(`r${session}`, many);
      assert.deepEqual(new Set(reply.results.map(({ fault }) => fault.code)), new Set(["forbidden"]));
      assert.equal(reply.seq, session < 16 ? 20 : 0);
    }
    const kept = await keptOf(storage);
    assert.ok(kept < 4_096, `${kept} bytes`);
    assert.equal((await send("r3", [put("0", 1)])).reply.results[0].fault.code, "forbidden", "each answer again");
    assert.equal(await keptOf(storage), kept);
    // A session that has written goes on, and a late copy of a refused operation is not executed.
    await send("w", [put("a", 1)], "w");
    assert.equal((await send("w", [put("b", 1)])).reply.results[0].fault.code, "session_reused");
    const pulled = await post(handler, { session: "w", ops: [], subs: [["Note", 0]] }, { Authorization: "Bearer w" });
    assert.deepEqual(pulled.reply.parts[0].rows.map(({ data }) => data.id), ["a"]);
  });

  test(`${kind}: a schema with other collections and indexes stores the documents again`, async (t) => {
    const storage = await make(t);
    const before = made({ storage });
    const documents = Array.from({ length: 230 }, (_, i) => put(`${i}`, i + 1, { box: i % 2 ? "odd" : "even", shelf: `${i % 3}`, code: `${i}` }));
    await post(before, { ops: documents });
    const changed = { Note: { key: ["id"], collections: { shelf: { key: ["shelf"] } }, indexes: { code: { type: "hash", unique: true } } } };
    const after = made({ storage, schema: changed });
    const ops = [put("new", 231, { code: "7" }), { ...put("7", 232), name: "doc.delete", args: { class: "Note", key: ["7"] } }, put("newer", 233, { code: "7" })];
    const { reply } = await post(after, { ops, subs: [[`Note/shelf@${shaS("1")}`, 0], [`Note/box@${shaS("odd")}`, 0]] });
    assert.deepEqual(reply.results.map(({ fault }) => fault?.code), ["not_unique", undefined, undefined]);
    const [shelf, box] = reply.parts;
    assert.deepEqual([shelf.present.length, box.fault.code], [76, "unknown_def"], "77, without the deleted one");
    const other = made({ storage, schema: { Note: { key: ["code"] } }, onError: () => {} });
    assert.equal((await post(other, {})).status, 500);
    await assert.rejects(async () => await other.write("demo", "doc.put", {}), /Note has another key, parent or clock/);
  });
}

for (const [kind, make] of all) {
  test(`${kind}: an operation of the application ends a document with its items`, { timeout: 10_000 }, async (t) => {
    const runs = { end: 0 };
    const end = (documents, { id }) => {
      runs.end += 1;
      documents.delete("Page", [id]);
      documents.put("Page", { id, text: "again" });
    };
    const tree = { Page: { key: ["id"] }, Line: { in: "Page", key: ["page", "n"] } };
    const handler = made({ storage: await make(t), schema: tree, operations: { end } });
    const of = (className, data, seq) => ({ ...put("p", seq), id: `${seq}`, args: { class: className, data } });
    const ops = [of("Page", { id: "p" }, 1), of("Line", { page: "p", n: "1" }, 2), of("Line", { page: "p", n: "2" }, 3), run("end", 4, { id: "p" })];
    const { reply } = await post(handler, { ops, subs: [["Page", 0], [`Line/in@${shaS("p")}`, 0]] });
    assert.deepEqual(reply.results.map(({ fault }) => fault?.code), Array(4).fill(undefined));
    assert.deepEqual([reply.parts[0].rows.map(({ data }) => data.text), reply.parts[1].present], [["again"], []]);
    assert.ok(runs.end < 20, `${runs.end} runs`);
  });

  test(`${kind}: r38_an_instance_with_an_earlier_schema_writes_no_more`, async (t) => {
    const storage = await make(t);
    const [before, same] = [made({ storage }), made({ storage })];
    await post(before, { ops: [put("a", 1, { box: "in", shelf: "1" })] });
    await post(same, { session: "t", ops: [put("b", 1, { shelf: "1" })] });
    const more = { ...schema, Other: { key: ["id"] } };
    assert.equal((await post(made({ storage, schema: more }), {})).status, 200);
    assert.equal((await post(before, { ops: [put("c", 2)] })).reply.results[0].fault, undefined, "a class more changes nothing for it");
    // Another collection: the documents of the earlier instance would not be in it.
    const other = { ...schema, Note: { key: ["id"], collections: { shelf: { key: ["shelf"] } } } };
    // The new instance ends in the middle of its first opening.
    const broken = { ...storage, write: (lock, act) => (lock === "demo" ? Promise.reject(new Error("it ended")) : storage.write(lock, act)) };
    const ended = made({ storage: broken, schema: other, onError: () => {} });
    assert.equal((await post(ended, {})).status, 500);
    const late = await post(before, { ops: [put("d", 3, { shelf: "1" })], subs: [["Note", 0]] });
    assert.deepEqual([late.reply.results[0].fault.code, late.reply.parts[0].present.length], ["unavailable", 3]);
    await assert.rejects(async () => await before.write("demo", "doc.put", { class: "Note", data: { id: "e" } }), /unavailable|another schema/);
    for (const after of [made({ storage, schema: other }), made({ storage, schema: other })]) {
      assert.deepEqual((await post(after, { subs: [[`Note/shelf@${shaS("1")}`, 0]] })).reply.parts[0].present.length, 2);
      assert.deepEqual((await post(after, { ops: [put("d", 3, { shelf: "2" })] })).reply.results[0].fault, undefined);
    }
    // The earlier release comes back, and the later one writes no more.
    const again = made({ storage });
    assert.equal((await post(again, { ops: [put("f", 4, { box: "in" })], subs: [[`Note/box@${shaS("in")}`, 0]] })).reply.parts[0].present.length, 2);
  });
}

test("r12_the_tenth_attempt_of_an_operation_that_fails_while_it_runs_is_its_result", async () => {
  const busy = () => {
    throw new Fault("server_error", "X", "not now");
  };
  const handler = made({ operations: { busy } });
  const codes = [];
  for (let attempt = 1; attempt <= 11; attempt++) {
    const { reply } = await post(handler, { ops: [run("busy", 1), put("a", 2)] });
    codes.push(`${reply.results[0].fault.code} ${reply.seq}`);
  }
  assert.deepEqual(codes, [...Array(9).fill("server_error 0"), ...Array(2).fill("internal 2")]);
});

test("a write that takes longer than a second is contention", async () => {
  const handler = made({ operations: { slow: () => {} }, writeMs: -1 });
  const { reply } = await post(handler, { ops: [run("slow", 1)] });
  assert.deepEqual([reply.results[0].fault.code, reply.seq], ["contention", 0]);
});

test("`authorize` says who may enter, who may write, and whose operations they are", async () => {
  const now = 1_000;
  const tokens = { w: { account: "ada", orgs: ["demo"], role: "write" }, r: { account: "bob", orgs: ["demo"], role: "read" }, old: { account: "eve", orgs: ["demo"], until: now } };
  const handler = made({ authorize: byTokens(tokens, () => now), operations: { who: ({ account }) => account } });
  const ask = (token, ops = [], path = undefined) => post(handler, { session: token, ops }, token && { Authorization: `Bearer ${token}` }, path);
  assert.deepEqual([(await ask(undefined)).status, (await ask("old")).status, (await ask("__proto__")).status], [401, 401, 401]);
  assert.equal((await ask(undefined)).headers.get("www-authenticate"), "Bearer");
  const foreign = await ask("w", [], "/other/sync");
  assert.deepEqual([foreign.status, foreign.reply.code], [403, "forbidden"]);
  assert.deepEqual((await ask("w", [run("who", 1)])).reply.results[0].ok.value, "ada");
  assert.deepEqual((await ask("r", [put("a", 1)])).reply.results[0].fault.code, "forbidden");
});

test("a page of another origin may call if it is on localhost, or listed", async () => {
  const ask = async (origins, Origin) => {
    const { status, headers } = await post(made({ origins }), {}, { Origin });
    return [status, headers.get("access-control-allow-origin")];
  };
  assert.deepEqual(await ask(undefined, "http://localhost:5173"), [200, "http://localhost:5173"]);
  assert.deepEqual(await ask(undefined, "http://localhost.evil.example"), [403, null]);
  assert.deepEqual(await ask(["https://app.example"], "https://app.example"), [200, "https://app.example"]);
  assert.deepEqual(await ask(["https://app.example"], "https://app.example:444"), [403, null]);
  assert.deepEqual(await ask("*", "https://any.example"), [200, "https://any.example"]);
  const refused = made().live(new Request("http://server/demo/live", { headers: { Origin: "https://any.example" } }));
  assert.equal(refused.status, 403);
});

test("a storage that fails is a fault, and `fetch` never rejects", async () => {
  const errors = [];
  const storage = memory();
  const handler = made({ storage, onError: (error) => errors.push(error.message) });
  await post(handler, {});
  const { write } = storage;
  storage.write = () => {
    throw new Error("no disk");
  };
  const { status, reply } = await post(handler, { ops: [put("a", 1)] });
  assert.deepEqual([status, reply.results[0].fault.code, reply.seq], [200, "server_error", 0]);
  storage.read = storage.write;
  assert.deepEqual((await post(handler, {})).status, 500);
  assert.deepEqual(errors, ["no disk", "no disk"]);
  Object.assign(storage, { write, read: memory().read });
});

test("half of a character is refused, and so is a number that is no JSON", async () => {
  const handler = made();
  const text = (inner) => `{"p":1,"session":"s","ops":[{"id":"1","seq":1,"name":"doc.put","at":1,"args":{"class":"Note","data":{"id":${inner}}}}]}`;
  for (const inner of ['"\\ud800"', '"\\uD83Dx"', "01", '"a', "+1"]) assert.deepEqual((await post(handler, text(inner))).reply.code, "malformed", inner);
  assert.ok((await post(handler, text('"\\ud83d\\ude00"'))).reply.results[0].ok);
});

test(`msgpack is that of the library, and its length is known before: ESCALE_SEED=${SEED}`, () => {
  const below = randomFrom(SEED);
  const pick = (list) => list[below(list.length)];
  const edges = [0, 1, 31, 32, 127, 128, 255, 256, 65535, 65536, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER];
  const value = (depth) => {
    const kind = below(depth > 3 ? 6 : 8);
    if (kind === 0) return pick([null, true, false]);
    if (kind === 1) return pick(edges) * pick([1, -1]) || 0;
    if (kind === 2) return pick([0.5, -1.25, 1e300, 2 ** 60]);
    if (kind === 3) return pick(["a", "\u00e9", "\u20ac", "\u{1f600}"]).repeat(pick([0, 1, 10, 31, 32, 90, 300, 70_000 / (depth + 1) | 0]));
    if (kind === 4) return new Uint8Array(pick([0, 1, 255, 256, 66_000]));
    if (kind === 5) return `${below(1_000)}`;
    const length = pick([0, 1, 3, 15, 16]);
    if (kind === 6) return Array.from({ length }, () => value(depth + 1));
    return Object.fromEntries(Array.from({ length }, (_, i) => [`k${i}`, value(depth + 1)]));
  };
  for (let round = 0; round < 40; round++) {
    const one = value(0);
    const bytes = encode(one);
    assert.equal(bytes.length, sizeOf(one));
    assert.deepEqual(decodeMsgpack(bytes), one);
    assert.deepEqual(decode(bytes), one);
    // The library writes an integer beyond 2^53 as one; a document holds the double.
    if (!JSON.stringify(one)?.includes(`${2 ** 60}`)) assert.deepEqual(bytes, new Uint8Array(encodeByLibrary(one)));
  }
});

test("a write of the server itself reaches the sockets, and `close` closes them", async (t) => {
  const handler = made();
  const server = await serve(handler, { port: 0 });
  const socket = await follow(t, `${server.url}/some/base`);
  const heard = nextMessage(socket, ({ hints }) => hints);
  const v = handler.write("demo", "doc.put", { class: "Note", data: { id: "a" } });
  assert.deepEqual((await heard).hints, [["Note", v]]);
  const closed = once(socket, "close");
  await server.close();
  assert.equal((await closed)[0], 1012);
  assert.throws(() => handler.write("demo", "doc.patch", { class: "Note", key: ["none"], set: {} }), { code: "not_found" });
});

test("a socket whose token has ended hears nothing more, and is closed", async (t) => {
  let tokens = { w: { account: "ada", orgs: ["demo"] } };
  const handler = made({ authorize: byTokens(async () => tokens) });
  const { url } = await serving(t, handler);
  const socket = await follow(t, url, { token: "w" });
  const closed = once(socket, "close");
  tokens = {};
  socket.on("message", () => assert.fail("it hears of a write"));
  handler.write("demo", "doc.put", { class: "Note", data: { id: "a" } });
  const [code, reason] = await closed;
  assert.deepEqual([code, reason.toString()], [4401, "unauthorized"]);
});

test("a local class is none of the server's, in operations, pulls and sockets", async (t) => {
  const handler = made();
  const op = { ...put("a", 1), args: { class: "Draft", data: { id: "a" } } };
  const { reply } = await post(handler, { ops: [op], subs: [["Draft", 0]] });
  assert.deepEqual([reply.results[0].fault.code, reply.parts[0].fault.code], ["unknown_class", "unknown_class"]);
  const { url } = await serving(t, handler);
  const socket = new WebSocket(`${url.replace("http", "ws")}/demo/live`);
  t.after(() => socket.terminate());
  await once(socket, "open");
  socket.send(JSON.stringify({ session: "s", subs: ["Draft", "Note"] }));
  const { live, refused } = await nextMessage(socket);
  assert.deepEqual([live, refused.map(([def, { code }]) => [def, code])], [["Note"], [["Draft", "unknown_class"]]]);
});

test("two instances on PostgreSQL hear of each other's writes, and of those that one of them may have missed", async (t) => {
  const [first, second] = await Promise.all([0, 1].map(async () => made({ storage: await postgres(postgresql.pool(), { table: "shared" }) })));
  t.after(() => first.engine.storage.close());
  const { url } = await serving(t, second);
  const socket = await follow(t, url);
  let heard = nextMessage(socket, ({ hints }) => hints);
  const v = await first.write("demo", "doc.put", { class: "Note", data: { id: "a" } });
  assert.ok((await heard).hints.some(([def, of]) => def === "Note" && of >= v));
  assert.deepEqual((await post(second, { subs: [["Note", 0]] })).reply.parts[0].rows.map((row) => row.v), [v]);
  // The connection that listens ends. Nobody tells of the writes meanwhile, so all that is followed counts as changed.
  heard = nextMessage(socket, ({ hints }) => hints);
  const killed = await postgresql.pool().query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN shared'");
  assert.ok(killed.rowCount >= 1);
  assert.deepEqual((await heard).hints.map(([def]) => def), ["Note"]);
});

test("a file of SQLite outlives its server", async (t) => {
  const { mkdtempSync, rmSync } = await import("node:fs");
  const folder = mkdtempSync(`${(await import("node:os")).tmpdir()}/escale-handler-`);
  t.after(() => rmSync(folder, { recursive: true }));
  const open = async () => made({ storage: await openSqlite(`${folder}/data.sqlite`) });
  const first = await open();
  const v = first.write("demo", "doc.put", { class: "Note", data: { id: "a", raw: Uint8Array.of(1, 2) } });
  const { reply } = await post(first, {});
  await first.close();
  const again = await open();
  t.after(() => again.close());
  const { epoch, parts } = (await post(again, { subs: [["Note", 0]] })).reply;
  assert.deepEqual([epoch, parts[0].rows.map((row) => [row.v, row.data.raw])], [reply.epoch, [[v, { $bytes: "AQI" }]]]);
});

test("no request ends the process, by any method and path", { timeout: 10_000 }, async (t) => {
  const { connect } = await import("node:net");
  const { port } = await serving(t, made());
  const ask = (head) =>
    new Promise((resolve, reject) => {
      let text = "";
      const upgrade = "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";
      const socket = connect(port, "127.0.0.1", () => socket.write(`${head}\r\nHost: x\r\n${upgrade}\r\n\r\n`));
      socket.on("data", (data) => (text += data)).on("close", () => resolve(text)).on("error", reject);
      // A socket that was accepted stays open.
      socket.on("data", () => /^HTTP\/1.1 101/.test(text) && socket.destroy());
    });
  for (const method of ["GET", "POST", "TRACE", "TRACK", "OPTIONS", "PROPFIND"]) {
    for (const path of ["/demo/sync", "/demo/live", "//", "/%zz/live", "http://other:99999/x", "*"]) await ask(`${method} ${path} HTTP/1.1`);
  }
  assert.equal((await fetch(`http://127.0.0.1:${port}/demo/sync`)).status, 405);
});

test("a purge that fails is told to `onError`, at once or later", { timeout: 10_000 }, async (t) => {
  const failing = [
    () => {
      throw new Error("the disk is full");
    },
    () => Promise.reject(new Error("the disk is full")),
  ];
  for (const purge of failing) {
    const handler = made();
    const reported = new Promise((resolve) => (handler.onError = resolve));
    handler.purge = purge;
    const server = await serve(handler, { port: 0, purgeEveryMs: 1 });
    t.after(() => server.close());
    assert.match((await reported).message, /the disk is full/);
  }
});

test("an org and a base may have any name, that of an endpoint too", async () => {
  const handler = made();
  for (const path of ["/file/sync", "/files/sync", "/live/sync", "/file/v1/demo/sync", "/sync/sync"]) {
    assert.equal((await post(handler, {}, {}, path)).status, 200, path);
  }
  for (const path of ["/demo/file/abc", "/demo/files", "/base/file/file/abc"]) assert.equal((await post(handler, {}, {}, path)).status, 501, path);
  for (const path of ["/demo/nothing", "/demo", "/"]) assert.equal((await post(handler, {}, {}, path)).status, 404, path);
});

test("a misuse is an error that names it", async () => {
  const misuses = [
    [{ schema: [] }, /schema: a map of classes/],
    [{ schema: { Note: { key: [] } } }, /Note is no class with a key/],
    [{ schema: { Line: { key: ["a"], in: "Page" } } }, /Line is in no class/],
    [{ schema: { Note: { key: ["id"], indexes: { n: "int" } } } }, /Note has an index of another type, int/],
    [{ operations: { "doc.put": () => {} } }, /doc\.put is built in/],
    [{ operations: { own: 5 } }, /own is built in, or no function/],
    [{ authorize: "token" }, /authorize: a function/],
    [{ origins: "https://app.example" }, /origins: a list/],
  ];
  for (const [options, message] of misuses) assert.throws(() => made(options), message);
  await assert.rejects(postgres(postgresql.pool(), { table: "a; DROP" }), /table: lower-case/);
});
