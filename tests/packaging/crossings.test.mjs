// How often a session crosses between JavaScript and the wasm for arriving documents: as often for many as for few.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { encode } from "@msgpack/msgpack";

import { ROOT } from "./project.mjs";

/** Crossings in either direction since the wasm was loaded, by name. */
const crossings = new Map();

function counted(functions) {
  const wrap = ([name, value]) => {
    if (typeof value !== "function") return [name, value];
    const call = (...args) => {
      crossings.set(name, (crossings.get(name) ?? 0) + 1);
      return value(...args);
    };
    return [name, call];
  };
  return Object.fromEntries(Object.entries(functions).map(wrap));
}

/** Loads the package, with a counter on each function of its wasm that crosses. */
async function loadCounted() {
  const escale = await import(join(ROOT, "pkg/index.js"));
  const { instantiate } = WebAssembly;
  WebAssembly.instantiate = async (module, imports) => {
    const modules = Object.entries(imports).map(([name, functions]) => [name, counted(functions)]);
    const { exports } = await instantiate(module, Object.fromEntries(modules));
    // The glue checks that it is an instance.
    return Object.create(WebAssembly.Instance.prototype, { exports: { value: counted(exports) } });
  };
  try {
    await escale.init(await readFile(join(ROOT, "pkg/escale_bg.wasm")));
  } finally {
    WebAssembly.instantiate = instantiate;
  }
  return escale;
}

const V = 1_700_000_000_000;
const pkOf = (n) => Buffer.alloc(16, `${n}-`.padStart(16, "0")).toString("base64url");
const rowsOf = (from, count, v) =>
  Array.from({ length: count }, (_, at) => ({ pk: pkOf(from + at), v, data: encode({ id: String(from + at), n: v, release: 1 }) }));

test("a batch of documents crosses as often as one of them", async () => {
  const { defineSchema, open } = await loadCounted();
  let hear;
  const reply = (parts) => encode({ p: 1, epoch: [1, "counted"], now: V, delta: 10, seq: 0, results: [], parts });
  const first = rowsOf(0, 10, V - 1);
  const server = {
    sync: async ({ subs }) =>
      reply(subs.map(([def, v]) => (v === 0 ? { def, rows: first, left: [], present: first.map(({ pk }) => pk) } : { def, rows: [], left: [] }))),
    listen: (_defs, on) => {
      hear = on;
    },
  };
  const schema = defineSchema({ Doc: { key: ["id"] } });
  const session = await open({ org: "counted", schema, server, mode: "incognito" });
  const heard = [];
  let wake = () => {};
  session.live("Doc", {}, (docs) => {
    heard.push(docs.length);
    wake();
  });
  const until = (what) =>
    new Promise((resolve) => {
      wake = () => what() && resolve();
      session.status.subscribe(wake);
      wake();
    });
  await until(() => heard.at(-1) === 10 && session.status.value.phase === "live");

  let [from, v] = [10, V + 10];
  /** Crossings until the subscriber has that many more documents, pushed in one frame. */
  const pushed = async (count) => {
    const before = new Map(crossings);
    const rows = rowsOf(from, count, v);
    from += count;
    hear(encode({ epoch: [1, "counted"], now: v, delta: 10, seq: 0, parts: [{ def: "Doc", rows, left: [] }] }));
    v += 10;
    await until(() => heard.at(-1) === from);
    await session.flush();
    return [...crossings].reduce((sum, [name, calls]) => sum + calls - (before.get(name) ?? 0), 0);
  };
  await pushed(1);
  const [one, many] = [await pushed(1), await pushed(500)];
  console.log(`# ${one} crossings for a document, ${many} for 500`);
  assert.ok(one > 0);
  assert.ok(many <= one + 10, `${many} crossings for 500 documents, ${one} for one`);
  await session.close();
});
