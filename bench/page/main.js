// The page of one system: what the runner calls, and the clock around it.
import { batchesOf, idsOf, SECTION_SIZE, sectionOf, touch, updatesOf } from "./data.js";

const SYSTEMS = import.meta.glob("../systems/*.js");

const [file, variant] = new URL(location.href).searchParams.get("system").split(":");
const { create } = await SYSTEMS[`../systems/${file}.js`]();
const system = create(variant);
// What an application does before it needs its data: loads its code.
await system.load?.();

async function timed(work) {
  const start = performance.now();
  const result = await work();
  return { ms: performance.now() - start, result };
}

function expect(found, wanted, what) {
  if (found !== wanted) throw new Error(`${what}: ${found} in place of ${wanted}`);
}

/** Lists the collection and reads it. */
async function list(count, index) {
  const documents = await system.list(sectionOf(index, count));
  documents.forEach(touch);
  return documents.length;
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

  /** W2: opens what rests, until one collection is listed and read. */
  async first(count) {
    const { ms, result } = await timed(async () => {
      await system.open();
      return list(count, 7);
    });
    expect(result, SECTION_SIZE, "the first collection");
    return ms;
  },

  /** W2: opens what rests, until every document is read and one collection listed. */
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

  /** W3: a collection listed again and again, each pass reading every property: a pass. */
  async warm(count, passes = 100) {
    await list(count, 3);
    const { ms } = await timed(async () => {
      for (let pass = 0; pass < passes; pass += 1) expect(await list(count, 3), SECTION_SIZE, "a collection");
    });
    return ms / passes;
  },

  /** W5: documents by their keys, in an order by chance. */
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

  /** Sees that an updated document is the new one: a system that lost an update has not won. */
  async check(count) {
    const [[last]] = updatesOf(count, scratch.round - 1).slice(-1);
    const [found] = await system.get([last.id]);
    expect(found?.body, last.body, "the last update");
  },

  /** W10: operations written offline, then drained: `{ written, drained }`, milliseconds. */
  writes: (count, operations) => system.writes(count, operations),

  /** Opening alone, of a store that is there or of a new one. */
  async open() {
    const { ms } = await timed(() => system.open());
    return ms;
  },

  close: () => system.close(),

  /** Bytes of wasm memory, where there is one. */
  wasmBytes: () => system.wasmBytes?.() ?? 0,
};
document.title = "ready";
