// The measurements of items: all documents belong to one note and are listed. Ten of them change; then the note ends, and
// all of them with it.
import { encode } from "@msgpack/msgpack";

import { documentAt, NOTE } from "./data.js";
import { expect, Heard, median } from "./timing.js";

/** The items that change together, and how often they do. */
const TEN = 10;
const CHANGES = 7;

/** Notes each record that the page puts into its databases, and each deletion. */
class Writes {
  #puts = [];
  #deletes = 0;
  #waiting = () => {};

  /** Records of the table `beats` are not noted: they are written every two seconds, even if nothing changes. */
  constructor(beats) {
    const writes = this;
    const { put, delete: remove } = IDBObjectStore.prototype;
    IDBObjectStore.prototype.put = function (value, ...key) {
      const table = `${this.transaction.db.name.endsWith("-mark") ? "beside." : ""}${this.name}`;
      if (table !== beats) writes.#puts.push({ table, value });
      writes.#waiting();
      return put.call(this, value, ...key);
    };
    IDBObjectStore.prototype.delete = function (...range) {
      writes.#deletes += 1;
      return remove.call(this, ...range);
    };
  }

  begin() {
    this.#puts = [];
    this.#deletes = 0;
  }

  /** Resolves once a record was put into that table. */
  until(table) {
    return new Promise((resolve) => {
      this.#waiting = () => this.#puts.some((put) => put.table === table) && resolve();
      this.#waiting();
    });
  }

  /**
   * The records put since it began, their bytes, and the deletions. An object counts by the length of its JSON. A fence,
   * which is an empty record at its own place, counts as none.
   */
  counted() {
    const sizes = this.#puts.map(({ value }) => value.byteLength ?? JSON.stringify(value).length).filter((size) => size > 0);
    return { records: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0), deletes: this.#deletes };
  }
}

/** The functions of the page that measure items of a system. */
export function itemsOf(system) {
  const writes = new Writes(system.beatTable);
  const heard = new Heard();

  /** Milliseconds of a change until the list shows it and it is durable. If a server made it, from its last message on. */
  async function until(isShown, change) {
    writes.begin();
    const start = performance.now();
    await change();
    await heard.when(isShown);
    await system.flush?.();
    return performance.now() - (system.heard?.at ?? start);
  }

  return {
    /** Opens the store, and lists all items from now on. */
    async listItems(count) {
      await system.open();
      await system.liveItems(NOTE, heard.take);
      await heard.when((documents) => documents.length === count);
      await system.settled?.();
    },

    /** Ten of the items change: the median time, and the last change's records and bytes. */
    async ten(count) {
      const times = [];
      let figures;
      for (let round = 1; round <= CHANGES; round += 1) {
        const batch = Array.from({ length: TEN }, (_, at) => documentAt(Math.floor(((at + 0.5) * count) / TEN), count, round));
        const bodies = new Map(batch.map(({ id, body }) => [id, body]));
        const isShown = (documents) => documents.filter(({ id, body }) => bodies.get(id) === body).length === TEN;
        const prepared = system.prepareUpdates ? await system.prepareUpdates([batch], count) : [batch];
        times.push(await until(isShown, () => system.update(prepared)));
        if (system.markTable) await writes.until(system.markTable);
        const own = batch.reduce((sum, document) => sum + encode(document).length, 0);
        const { records, bytes } = writes.counted();
        figures = { tenRecords: records, tenBytes: bytes, tenOwn: own };
        if (system.heard) figures.tenReply = system.heard.bytes;
      }
      return { ten: median(times.slice(1)), ...figures };
    },

    /** The note ends: the time until no item is listed and that is durable, with the bytes and the deletions. */
    async end() {
      const ended = await until((documents) => documents.length === 0, () => system.endItems(NOTE));
      const left = await system.list(NOTE);
      expect(left.length, 0, "items that are left");
      const { bytes, deletes } = writes.counted();
      return { end: ended, endBytes: bytes, endDeletes: deletes, ...(system.heard ? { endReply: system.heard.bytes } : {}) };
    },
  };
}
