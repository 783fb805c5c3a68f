// The link of a session to the module of files: the moments at which it loads the module, and a failure to load it.
import assert from "node:assert/strict";
import { test } from "node:test";

import { FileLink } from "../../../js/dist/session/file-link.js";
import { LiveStatus } from "../../../js/dist/session/status.js";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, settled } from "../fake-core.mjs";

const turn = () => new Promise((resolve) => setImmediate(resolve));

const STATUS = { mode: "synced", phase: "loading", updates: null, leads: true, pending: 0, progress: null, storage: "ok", damaged: {}, error: null, faults: {}, restriction: 0 };

/** A link whose module fails to load until `mended`. */
function broken() {
  const status = new LiveStatus("synced");
  const found = { loads: 0, ended: 0, isMended: false, needed: [] };
  const link = new FileLink(async () => {
    found.loads += 1;
    if (!found.isMended) throw new TypeError("the chunk is not there");
    return { openFiles: async () => ({ files: {}, needed: (shas) => found.needed.push(shas), end: () => (found.ended += 1) }) };
  }, status);
  link.start({ inspect: async () => ({ name: "s" }), files: () => [] }, {});
  const tell = (change) => status.update({ ...STATUS, ...change });
  return { link, status, found, tell };
}

test("the session that leads loads the module once it has loaded, and one that follows does not", async () => {
  const { found, tell } = broken();
  found.isMended = true;
  tell({});
  tell({ leads: false, phase: "live" });
  await turn();
  assert.equal(found.loads, 0);
  tell({ phase: "live" });
  tell({ phase: "offline" });
  await turn();
  assert.deepEqual([found.loads, found.needed], [1, [[]]]);
});

test("r28_files_hear_of_documents_once_they_are_read_and_of_no_empty_list_before", async () => {
  let host;
  const files = async () => ({ openFiles: async (given) => ((host = given), { files: {}, needed: () => {}, end: () => {} }) });
  const { session, core } = await openFake(defineSchema({ Package: { key: ["name"] } }), { files });
  core.put("Package", { name: "a" });
  await session.files();
  core.isHolding = true;
  const heard = [];
  const follow = () => host.follow("Package", {}, (documents) => heard.push(documents.map(({ name }) => name)));
  follow();
  await settled();
  assert.deepEqual(heard, [], "until then nobody knows which files a rule keeps");
  core.release();
  await settled();
  assert.deepEqual(heard, [["a"]]);
  follow();
  await settled();
  assert.deepEqual(heard, [["a"], ["a"]]);
});

test("a module that cannot be loaded is asked for once, and again at the next phase or question", async () => {
  const { link, status, found, tell } = broken();
  tell({ phase: "offline" });
  for (let n = 0; n < 20; n++) await turn();
  assert.equal(found.loads, 1, "a failure is no reason to try again");
  assert.equal(status.error.code, "not_loaded");
  await assert.rejects(link.load(), { code: "not_loaded" });
  assert.equal(found.loads, 2);
  found.isMended = true;
  link.needed(["sha"]);
  await turn();
  assert.deepEqual([found.loads, found.needed], [3, [["sha"]]]);
});

test("a module that cannot be loaded is asked for again while operations wait for it", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { link, found } = broken();
  link.needed(["sha"]);
  await turn();
  t.mock.timers.tick(29_999);
  await turn();
  assert.equal(found.loads, 1);
  found.isMended = true;
  t.mock.timers.tick(1);
  await turn();
  assert.deepEqual([found.loads, found.needed], [2, [["sha"]]]);
});

test("no timer is left of a session that ended, and one is enough for any number of failures", async (t) => {
  const timers = new Set();
  t.mock.method(globalThis, "setTimeout", (call) => {
    const timer = { call };
    timers.add(timer);
    return timer;
  });
  t.mock.method(globalThis, "clearTimeout", (timer) => timers.delete(timer));
  const { link, found, tell } = broken();
  link.needed(["sha"]);
  await turn();
  for (const phase of ["offline", "live", "offline"]) {
    tell({ phase });
    await turn();
  }
  assert.deepEqual([found.loads, timers.size], [4, 1]);
  link.end();
  assert.equal(timers.size, 0);
  // One that ends while the module loads: the failure comes later.
  const other = broken();
  other.link.needed(["sha"]);
  other.link.end();
  for (let n = 0; n < 5; n++) await turn();
  assert.deepEqual([other.found.loads, timers.size], [1, 0]);
});

test("a session that ends while its module loads ends the module", async () => {
  const { link, found, tell } = broken();
  found.isMended = true;
  tell({ phase: "live" });
  link.end();
  await turn();
  assert.deepEqual([found.loads, found.ended], [1, 1]);
  await assert.rejects(link.load(), { code: "closed" });
});
