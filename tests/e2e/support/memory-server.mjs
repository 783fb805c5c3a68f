// A server without a process: packages in the test's memory, and an adapter object in the page that asks for them.
import { createHash } from "node:crypto";

const shaS = (text) => createHash("sha256").update(text).digest().subarray(3, 19).toString("base64url");

/** The def of the packages of a section, or of a tag. */
export const defOf = (collection, value) => `Package/${collection}@${shaS(value)}`;

const DELTA = 10;

/** Answers in the protocol's JSON form, with `pageRows` rows in each reply. */
export class MemoryServer {
  /** Every request, in order. */
  requests = [];
  /** Called with each request before it is answered; its result is awaited. */
  holds = () => {};
  #rows = new Map();
  #clock = Date.now();
  #epoch = [this.#clock, "memory"];
  #listeners = new Set();

  constructor(documents, pageRows = 1_000) {
    this.pageRows = pageRows;
    for (const document of documents) this.#put(document);
    // Long ago: pulls after this bring only later writes.
    this.#clock += 100 * DELTA;
  }

  /** Writes a document, and informs every page that listens. */
  async put(document) {
    this.#clock += 1;
    const before = this.#rows.get(shaS(document.name))?.defs ?? new Set();
    const { defs } = this.#put(document);
    const hints = [...new Set([...before, ...defs])].map((def) => [def, this.#clock]);
    await Promise.all([...this.#listeners].map((page) => page.evaluate((frame) => window.hearFromMemory(frame), { hints })));
  }

  /** Puts the adapter object on every page that the context opens from now on. */
  async putOn(context) {
    await context.exposeFunction("askMemory", (request) => this.sync(request));
    await context.addInitScript(() => {
      let hear = () => {};
      window.hearFromMemory = (frame) => hear(frame);
      window.escaleAdapter = {
        sync: (request) => window.askMemory(request),
        listen(_defs, on) {
          hear = on;
          // The next call of `listen` begins before this one is stopped.
          return () => {
            if (hear === on) hear = () => {};
          };
        },
      };
    });
    context.on("page", (page) => {
      this.#listeners.add(page);
      page.on("close", () => this.#listeners.delete(page));
    });
  }

  async sync(request) {
    this.requests.push(request);
    await this.holds(request);
    let room = this.pageRows;
    const parts = [];
    for (const [def, v, cursor] of request.subs) {
      if (room <= 0) break;
      const part = this.#answer(def, v, cursor, room);
      room -= part.rows.length + part.left.length;
      parts.push(part);
    }
    return { p: 1, epoch: this.#epoch, now: this.#clock, delta: DELTA, seq: 0, results: [], parts };
  }

  #put(document) {
    const pk = shaS(document.name);
    const tags = document.tags.map((tag) => defOf("tags", tag));
    const defs = new Set(["Package", `Package@${pk}`, defOf("section", document.section), ...tags]);
    const left = this.#rows.get(pk)?.left ?? new Map();
    for (const def of this.#rows.get(pk)?.defs ?? []) if (!defs.has(def)) left.set(def, this.#clock);
    const row = { pk, v: this.#clock, data: document, defs, left };
    this.#rows.set(pk, row);
    return row;
  }

  #answer(def, v, cursor, room) {
    const changes = [];
    for (const { pk, v: at, data, defs, left } of this.#rows.values()) {
      if (defs.has(def) && at >= v) changes.push({ pk, v: at, data });
      else if (left.get(def) >= v && v > 0) changes.push({ pk, v: left.get(def) });
    }
    changes.sort(ascending);
    const after = cursor ? JSON.parse(cursor) : { v: 0, pk: "" };
    const open = changes.filter((change) => ascending(change, after) > 0);
    const told = open.slice(0, room);
    const rows = told.filter(({ data }) => data);
    const left = told.filter(({ data }) => !data).map(({ pk, v: at }) => [pk, at]);
    const part = { def, rows, left, total: changes.length };
    if (told.length < open.length) {
      const { v: at, pk } = told.at(-1);
      part.next = JSON.stringify({ v: at, pk });
    } else if (v === 0) {
      part.present = changes.map(({ pk }) => pk);
    }
    return part;
  }
}

const ascending = (a, b) => a.v - b.v || (a.pk < b.pk ? -1 : a.pk > b.pk ? 1 : 0);
