// How data becomes documents: bytes, escaped keys, releases and migrations.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Documents } from "../../../js/dist/views/documents.js";
import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, recorder, settled } from "../fake-core.mjs";

const plain = defineSchema({ Package: { key: ["name"] } });

async function readOne(schema, data) {
  const { session, core } = await openFake(schema);
  core.put("Package", data);
  return { document: await session.get("Package", [data.name]), session, core };
}

test("bytes are bytes, however deep", async () => {
  const bytes = { $bytes: "AP_-gA" };
  const { document } = await readOne(plain, { name: "a", photo: bytes, deep: [{ er: bytes }] });
  const expected = Uint8Array.of(0, 255, 254, 128);
  assert.deepEqual({ ...document }, { name: "a", photo: expected, deep: [{ er: expected }] });
});

test("keys that look like bytes come back as they were", async () => {
  const escaped = { name: "a", $$bytes: 1, deep: { $$bytes: "x", $$$bytes: { $$bytes: "AAAA" } } };
  const { document } = await readOne(plain, escaped);
  assert.deepEqual({ ...document }, { name: "a", $bytes: 1, deep: { $bytes: "x", $$bytes: { $bytes: "AAAA" } } });
});

test("text that only mentions the mark stays text", async () => {
  const { document } = await readOne(plain, { name: "a", text: 'of "$bytes" and $bytes"' });
  assert.equal(document.text, 'of "$bytes" and $bytes"');
});

test("neither v nor release shows; meta tells the version", async () => {
  const { document, session, core } = await readOne(plain, { name: "a", release: 1 });
  assert.deepEqual(Object.keys(document), ["name"]);
  assert.deepEqual(session.meta(document), { v: 1_001, pending: false, deleted: false });
  assert.equal(session.meta({ name: "a" }), undefined);
  core.put("Package", { name: "a" });
  assert.equal(session.meta(document), undefined, "another version took its place");
});

const migrating = (migrate) =>
  defineSchema({ Package: { key: ["name"], release: 3 } }, { migrate: { Package: migrate } });

test("older releases are migrated step by step, once", async () => {
  let steps = 0;
  const schema = migrating({
    2: (data) => {
      steps++;
      return { ...data, two: data.release };
    },
    3: (data) => {
      steps++;
      data.three = data.two === undefined;
      return data;
    },
  });
  const { document, session } = await readOne(schema, { name: "a" });
  assert.deepEqual({ ...document }, { name: "a", two: undefined, three: true });
  assert.equal(await session.get("Package", ["a"]), document);
  assert.equal(steps, 2);
  const second = await readOne(schema, { name: "b", release: 2, two: 2 });
  assert.deepEqual({ ...second.document }, { name: "b", two: 2, three: false });
  const newer = await readOne(schema, { name: "c", release: 4 });
  assert.deepEqual({ ...newer.document }, { name: "c" });
});

for (const [what, migrate] of Object.entries({
  "throws": { 2: () => assert.fail("by the application"), 3: (data) => data },
  "is missing": { 3: (data) => data },
  "returns no map": { 2: () => 5, 3: (data) => data },
  "changes the key": { 2: (data) => data, 3: (data) => ({ ...data, name: "z" }) },
})) {
  test(`a migration that ${what} leaves its document out, by a named error`, async () => {
    const { session, core } = await openFake(migrating(migrate));
    const { callback, calls } = recorder();
    core.put("Package", { name: "old" }, { name: "new", release: 3 });
    session.live("Package", {}, callback);
    const [docs] = await calls(1);
    assert.deepEqual(docs.map(({ name }) => name), ["new"]);
    assert.equal(session.status.error.code, "bad_schema");
    assert.match(session.status.error.message, /class Package/);
    const reads = core.called("read");
    core.becomeReady("Package");
    await settled();
    assert.equal(core.called("read"), reads, "it is not read again");
  });
}

test("a version that goes out of use while it is read is not kept", async () => {
  let release;
  const core = {
    read: () => new Promise((resolve) => (release = () => resolve('[[1,{"name":"a"}]]'))),
  };
  const documents = new Documents(core, plain, assert.fail);
  const loading = documents.load("Package", [1]);
  await settled();
  documents.evict(Uint32Array.of(1));
  release();
  assert.deepEqual(await loading, { documents: new Map(), overtaken: true });
});

test("two readings that cross make one object", async () => {
  const core = { read: async () => '[[1,{"name":"a"}]]' };
  const documents = new Documents(core, plain, assert.fail);
  const [one, two] = await Promise.all([documents.load("Package", [1]), documents.load("Package", [1])]);
  assert.equal(one.documents.get(1), two.documents.get(1));
});

test("what is asked for in one breath crosses together, and fails together", async () => {
  const asked = [];
  const core = {
    read: async (ids) => {
      asked.push(ids.length);
      if (asked.length === 1) throw new Error("no device");
      return JSON.stringify(Array.from(ids, (id) => [id, { name: `n${id}` }]));
    },
  };
  const documents = new Documents(core, plain, assert.fail);
  const load = () => Promise.allSettled(Array.from({ length: 1_500 }, (_, at) => documents.load("Package", [at % 1_200])));
  const failed = (results) => results.filter(({ status }) => status === "rejected").length;
  assert.equal(failed(await load()), 1_000, "of the first crossing alone");
  const again = await load();
  assert.equal(failed(again), 0);
  assert.deepEqual(asked, [1_000, 500, 700], "again, only what is not held");
  assert.equal(again[7].value.documents.get(7).name, "n7");
});

test("a document is known by its key until something changes, and then asked for", async () => {
  const core = { read: async (ids) => JSON.stringify(Array.from(ids, (id) => [id, { name: `n${id}` }])) };
  const documents = new Documents(core, plain, assert.fail);
  const { documents: read } = await documents.load("Package", [1, 2]);
  assert.equal(documents.at("Package", ["n1"]), read.get(1));
  assert.equal(documents.at("Package", ["n1", "n1"]), undefined, "a key of another length");
  assert.equal(documents.at("Nothing", ["n1"]), undefined);
  documents.forgetKeys();
  assert.equal(documents.at("Package", ["n1"]), undefined, "an operation may stand on it");
  documents.found("Package", read.get(1));
  assert.equal(documents.at("Package", ["n1"]), read.get(1));
  documents.evict(Uint32Array.of(2));
  assert.equal(documents.at("Package", ["n1"]), undefined, "another version may stand in its place");
});

test("what was read while something changed is not known by its key", async () => {
  let release;
  const core = { read: () => new Promise((resolve) => (release = () => resolve('[[1,{"name":"a"}]]'))) };
  const documents = new Documents(core, plain, assert.fail);
  const loading = documents.load("Package", [1]);
  await settled();
  documents.forgetKeys();
  release();
  assert.equal((await loading).documents.size, 1);
  assert.equal(documents.at("Package", ["a"]), undefined);
});

test("the id of a document is known once it is asked for", async () => {
  const core = { read: async () => '[[1,{"name":"a"}],[2,{"name":"b"}]]' };
  const documents = new Documents(core, plain, assert.fail);
  const { documents: read } = await documents.load("Package", [1, 2]);
  documents.evict(Uint32Array.of(2));
  assert.equal(documents.idOf(read.get(1)), 1);
  assert.equal(documents.idOf(read.get(2)), undefined);
  assert.equal(documents.idOf({ name: "a" }), undefined);
});

test("versions that are gone cost nothing when an id is asked for", async (t) => {
  const core = { read: async (ids) => JSON.stringify(Array.from(ids, (id) => [id, { name: `n${id}` }])) };
  const documents = new Documents(core, plain, assert.fail);
  for (let id = 1; id <= 5_000; id++) {
    await documents.load("Package", [id]);
    documents.evict(Uint32Array.of(id));
  }
  const looked = t.mock.method(Map.prototype, "get");
  assert.equal(documents.idOf({}), undefined);
  const calls = looked.mock.callCount();
  looked.mock.restore();
  assert.ok(calls <= 1_001, `${calls} versions were looked up`);
});
