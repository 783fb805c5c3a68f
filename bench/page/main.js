// The page of one system: the functions that the runner calls, with their timing.
import { batchesOf, idsOf, listed, touch, updatesOf, useItems, useLists, usePackages, useQueries } from "./data.js";
import { filesOf } from "./files.js";
import { itemsOf } from "./items.js";
import { queriesOf } from "./queries.js";
import { expect, timed } from "./timing.js";

const SYSTEMS = import.meta.glob("../systems/*.js");

const asked = new URL(location.href).searchParams;
const [file, variant] = asked.get("system").split(":");
if (asked.get("set") === "packages") usePackages(await (await fetch("packages.json")).json());
if (asked.get("set") === "lists") useLists();
if (asked.get("set") === "queries") useQueries();
if (asked.get("set") === "items") useItems();
const { create } = await SYSTEMS[`../systems/${file}.js`]();
const system = create(variant);
// An application loads its code before it needs its data.
await system.load?.();

/** Lists a collection and reads it. */
async function list(count, which) {
  const { section, size } = listed(which, count);
  const documents = await system.list(section);
  documents.forEach(touch);
  expect(documents.length, size, "a collection");
}

const scratch = { round: 1 };

window.bench = {
  /** W1: every document, in batches, until durable. The store is new and open. */
  async arrive(count) {
    const batches = batchesOf(count);
    const prepared = system.prepare ? await system.prepare(batches, count) : batches;
    await system.open();
    const { ms } = await timed(() => system.arrive(prepared));
    return ms;
  },

  /** W2: opens the store, until one collection is listed and read. */
  async first(count) {
    const { ms } = await timed(async () => {
      await system.open();
      await list(count, 7);
    });
    return ms;
  },

  /** W2: opens the store, until every document is read and one collection listed. */
  async all(count) {
    const { ms, result } = await timed(async () => {
      await system.open();
      const documents = await system.all();
      documents.forEach(touch);
      await list(count, 7);
      return documents.length;
    });
    expect(result, count, "all documents");
    return ms;
  },

  /** W3: lists a collection again and again, and reads every property in each pass. Returns the time of one pass. */
  async warm(count, passes = 100) {
    await list(count, 3);
    const { ms } = await timed(async () => {
      for (let pass = 0; pass < passes; pass += 1) await list(count, 3);
    });
    return ms / passes;
  },

  /** W5: documents by their keys, in random order. */
  async read(count) {
    const ids = idsOf(count, scratch.round++);
    const { ms, result } = await timed(async () => {
      const documents = await system.get(ids);
      documents.forEach(touch);
      return documents.length;
    });
    expect(result, ids.length, "documents read");
    return ms;
  },

  /** W4: new versions of 1,000 documents in batches of 100, until durable. */
  async update(count) {
    const batches = updatesOf(count, scratch.round++);
    const prepared = system.prepareUpdates ? await system.prepareUpdates(batches, count) : batches;
    const { ms } = await timed(() => system.update(prepared));
    return ms;
  },

  /** Checks that an updated document is the new version: a system that lost an update has not won. */
  async check(count) {
    const [[last]] = updatesOf(count, scratch.round - 1).slice(-1);
    const [found] = await system.get([last.id]);
    expect(found?.body, last.body, "the last update");
  },

  /** W10: operations written offline, then drained: `{ written, drained }`, milliseconds. */
  writes: (count, operations) => system.writes(count, operations),

  /** Opens only, an existing store or a new one. */
  async open() {
    const { ms } = await timed(() => system.open());
    return ms;
  },

  ...queriesOf(system),

  ...itemsOf(system),

  ...(asked.get("set") === "files" ? filesOf(system) : {}),

  close: () => system.close(),

  /** Bytes of wasm memory, if there is any. */
  wasmBytes: () => system.wasmBytes?.() ?? 0,
};
document.title = "ready";
