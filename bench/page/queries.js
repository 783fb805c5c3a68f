// The measurements of queries: an index, an ordered range, a live query, and updates while many lists are open.
import { documentAt, GROUPS, idOf, random, shownGroups, touch, updatesOf } from "./data.js";
import { expect, Heard, median, timed } from "./timing.js";

/** The documents that a query lists. */
const LIMIT = 50;

/** The ranges that follow an index, and the changes that a live query hears of. */
const RANGES = 20;
const CHANGES = 20;

/** The lists that a page shows. */
const LISTS = 50;

/** The updates of one kind that are timed, before lists are open, while they are, and afterwards. */
const PASSES = 3;

/** The functions of the page that measure queries of a system. */
export function queriesOf(system) {
  let round = 100;
  /** The lists that are open. */
  let lists = [];

  /** The documents of a page whose values ascend, each property read. */
  async function range(from) {
    const documents = await system.range(from, LIMIT);
    documents.forEach(touch);
    expect(documents.length, LIMIT, "a range");
    documents.reduce((before, { n }) => {
      if (before > n || n < from) throw new Error("a range is not in order");
      return n;
    }, from);
  }

  /** New versions of 1,000 documents in batches of 100, each durable before the next, until each list shows them. */
  async function update(count) {
    const batches = updatesOf(count, round++);
    const prepared = system.prepareUpdates ? await system.prepareUpdates(batches, count) : batches;
    const bodies = new Map(batches.flat().map(({ id, body }) => [id, body]));
    const isShown = (documents) => documents.every(({ id, body }) => !bodies.has(id) || bodies.get(id) === body);
    const { ms } = await timed(async () => {
      await system.update(prepared);
      await Promise.all(lists.map((list) => list.when(isShown)));
    });
    const [last] = batches.at(-1);
    const [found] = await system.get([last.id]);
    expect(found?.body, last.body, "the last update");
    return ms;
  }

  /** Changes random documents, each to a value below all others. `prepare` gives the function that makes a change. */
  async function live(count, before, prepare) {
    const heard = new Heard();
    const stop = await system.liveRange(LIMIT, heard.take);
    await heard.when((documents) => documents.length === LIMIT);
    const next = random(round++);
    const times = [];
    for (let change = 1; change <= CHANGES; change += 1) {
      const [index, n] = [Math.floor(next() * count), -before - change];
      const make = await prepare(index, n);
      const start = performance.now();
      const made = make();
      const at = await heard.when(([first]) => first.id === idOf(index) && first.n === n);
      times.push(at - start);
      await made;
    }
    await stop();
    return median(times);
  }

  return {
    /** Opens the store, until a first query lists 50 documents by an index: the session has no index before. */
    async index() {
      const { ms } = await timed(async () => {
        await system.open();
        await range(0);
      });
      return ms;
    },

    /** 50 documents from a value on, in order, once for each of some values, and each again: medians. */
    async ranges() {
      const next = random(round++);
      const from = Array.from({ length: RANGES }, () => Math.floor(next() * 9e8));
      const times = async () => {
        const all = [];
        for (const value of from) all.push((await timed(() => range(value))).ms);
        return median(all);
      };
      return { range: await times(), rangeAgain: await times() };
    },

    /** From a change of a document until the callback of a live query that lists it first: the median. */
    live: (count) => live(count, 0, async (index, n) => () => system.change(idOf(index), n)),

    /** The same for documents that the server pushes. */
    livePushed: (count) =>
      live(count, CHANGES, async (index, n) => {
        const prepared = await system.prepareUpdates([[{ ...documentAt(index, count), n }]], count);
        return () => system.update(prepared);
      }),

    /** Opens 50 lists. Returns a function that closes them. */
    async openLists(count) {
      const groups = shownGroups(LISTS);
      lists = groups.map(() => new Heard());
      const stops = [];
      for (const [at, group] of groups.entries()) stops.push(await system.liveList(group, count, lists[at].take));
      await Promise.all(lists.map((list) => list.when((documents) => documents.length >= Math.floor(count / GROUPS))));
      return async () => {
        for (const stop of stops) await stop();
        lists = [];
      };
    },

    updateLists: (count) => update(count),

    /** 1,000 updates without a list, and with 50 lists open: medians. */
    async lists(count) {
      // The first updates of each kind compile code.
      const times = async () => {
        const all = [];
        for (let pass = 0; pass <= PASSES; pass += 1) all.push(await update(count));
        return all.slice(1);
      };
      const before = await times();
      if (!system.liveList) return { none: median(before) };
      const close = await this.openLists(count);
      const open = await times();
      await close();
      return { none: median([...before, ...(await times())]), open: median(open) };
    },
  };
}
