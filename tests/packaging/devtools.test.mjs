// The devtools of the finished package without a page: the redacted report, and the network log of an adapter object.
import assert from "node:assert/strict";
import { test } from "node:test";

import "fake-indexeddb/auto";

import { makePageServer } from "../e2e/support/in-page/page-server.js";

const SECRET = "PLANTED-SECRET";
/** A text that occurs nowhere else, in each place where an application can put one. */
const plant = (place) => `${SECRET}-${place}-5up3r`;

const BYTES = new TextEncoder().encode(SECRET);

/** The forms in which a text could appear in JSON. */
const FORMS = [SECRET, Buffer.from(BYTES).toString("hex"), ...[0, 1, 2].map((shift) => Buffer.concat([Buffer.alloc(shift), BYTES]).toString("base64url").slice(2, -3))];

async function planted(t) {
  const { defineSchema, open } = await import("escale");
  const { watchServer } = await import("../../js/dist/devtools/network.js");
  const schema = defineSchema({ Note: { key: ["id"], collections: { shelf: { key: ["shelf"] } }, indexes: { title: "string" } } });
  const { adapter } = makePageServer(schema);
  let fails;
  const server = {
    ...adapter,
    sync: (request) => {
      if (fails) return Promise.reject(Object.assign(new Error(plant("message")), fails));
      return adapter.sync(request);
    },
  };
  const session = await open({
    org: plant("org"),
    account: plant("account"),
    schema,
    server: watchServer(server),
    passphrase: plant("passphrase"),
    token: plant("token"),
    operations: { [plant("operation")]: { optimistic: (tx, { id }) => tx.put("Note", { id, title: plant("optimistic") }) } },
  });
  t.after(() => session.close());
  return { session, setFailure: (how) => (fails = how) };
}

test("a redacted report holds no planted secret, whatever has happened", { timeout: 60_000 }, async (t) => {
  // The modules of the entry: a panel, which needs a page, starts the recorder.
  const { redactedReport } = await import("../../js/dist/devtools/report.js");
  const { recorderOf } = await import("../../js/dist/devtools/recorder.js");
  const { session, setFailure } = await planted(t);
  t.after(recorderOf(session).use(() => {}));
  await session.collection("Note", {}).whenReady();
  await session.collection("Note", { shelf: plant("shelf") }).whenReady();
  await session.collection("Note", { key: [plant("key")] }).whenReady();
  await session.put("Note", { id: plant("id"), title: plant("title"), shelf: plant("shelf"), photo: BYTES }).accepted;
  const live = await redactedReport(session);
  assert.deepEqual([live.report, live.status.phase, live.memory.documents], ["escale", "live", 1]);
  assert.deepEqual(live.memory.collections.map(({ of }) => of).sort(), ["Note", "Note/shelf", "Note@"]);
  assert.ok(live.store.bytes > 0);
  assert.deepEqual(live.operations.map(({ name, of, fate }) => [name, of, fate]), [["doc.put", "Note", "accepted"]]);
  assert.ok(live.network.length > 2 && live.history.at(-1).phase === "live");

  // Failures with texts of the server and of the adapter, and operations that wait or are refused.
  setFailure({ code: plant("code"), status: 500 });
  session.run(plant("operation"), { id: plant("args"), title: plant("argument") });
  session.put("Note", { id: plant("waiting"), title: plant("title") });
  await new Promise((resolve) => session.status.subscribe(({ phase }) => phase === "offline" && resolve()));
  const offline = await redactedReport(session);
  assert.equal(offline.status.pending, 2);
  assert.equal(offline.status.phase, "offline");
  assert.deepEqual(offline.operations.map(({ name }) => name).sort(), ["doc.put", "doc.put", "other"]);
  assert.deepEqual(offline.network.at(-1).code, "other", "a code that Escale does not know is text of the server");

  for (const [name, report] of Object.entries({ live, offline })) {
    const text = JSON.stringify(report);
    for (const form of FORMS) assert.ok(!text.includes(form), `${name} holds ${form}: ${text}`);
    assert.ok(!text.includes("5up3r"), name);
  }
  // The control: the session itself has them all.
  const held = JSON.stringify([await session.query("Note").docs(), session.pending(), recorderOf(session).operations]);
  assert.ok(held.includes(plant("id")) && held.includes(plant("argument")));
});

test("`watchServer` lists requests, listening and failures without an address or a body", { timeout: 60_000 }, async () => {
  const { watchNetwork, watchServer: watch } = await import("../../js/dist/devtools/network.js");
  const entries = [];
  const stop = watchNetwork((entry) => entries.push(entry));
  let hear;
  const replies = [{ p: 1 }, '{"p":1}', new Uint8Array(7)];
  const adapter = {
    sync: () => (replies.length > 0 ? Promise.resolve(replies.shift()) : Promise.reject(Object.assign(new Error(plant("x")), { code: "too_many", status: 429 }))),
    listen: (_defs, on) => ((hear = on), () => (hear = undefined)),
  };
  const watched = watch(adapter);
  const request = { p: 1, subs: [["A", 0], ["B", 0]], ops: [{}] };
  for (const size of [null, 7, 7]) {
    await watched.sync(request);
    assert.equal(entries.at(-1).bytes, size);
  }
  await assert.rejects(watched.sync(request), { code: "too_many" });
  const frames = [];
  const end = watched.listen(["A"], (frame) => frames.push(frame));
  hear("{}");
  end();
  assert.deepEqual([frames, hear], [["{}"], undefined], "the application's adapter is called as before");
  assert.deepEqual(
    entries.map(({ kind, status, code, subs, ops }) => [kind, status, code, subs, ops]),
    [
      ["sync", null, null, 2, 1],
      ["sync", null, null, 2, 1],
      ["sync", null, null, 2, 1],
      ["sync", 429, "too_many", 2, 1],
      ["listen", null, null, 1, null],
      ["frame", null, null, null, null],
    ],
  );
  assert.ok(entries.every(({ at, ms }) => at > 0 && (ms === null || ms >= 0)));
  stop();
  await assert.rejects(watched.sync(request));
  assert.equal(entries.length, 6, "nothing is listed after the end");
  assert.equal(watch({ sync: () => Promise.resolve({}) }).listen, undefined, "an adapter that cannot listen still cannot");
});

test("importing the devtools on a server that renders pages does nothing", async () => {
  const { open, defineSchema } = await import("escale");
  const { devtools, defineDevtools, EscaleDevtools, redactedReport } = await import("escale/devtools");
  assert.equal(globalThis.customElements, undefined);
  for (const one of [devtools, defineDevtools, EscaleDevtools]) assert.equal(typeof one, "function");
  const { adapter } = makePageServer();
  const session = await open({ org: "o", schema: defineSchema({ Note: { key: ["id"] } }), server: adapter, mode: "incognito" });
  assert.match((await redactedReport(session)).version, /^\d+\.\d+\.\d+/, "the package's version");
  await session.close();
});
