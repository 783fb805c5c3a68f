// A server without a process: the engine of `escale-handler` with packages in the test's memory, and an adapter object in
// the page that asks for them.

import { Engine, memory, run, shaS, textOfValue, valueOfText } from "../../../handler/src/engine/index.mjs";
import { PACKAGES_SCHEMA } from "./paths.mjs";

/** The def of the packages of a section, or of a tag. */
export const defOf = (collection, value) => `Package/${collection}@${shaS(value)}`;

const ORG = "memory";
const DELTA = 10;
const CALLER = { account: "", mayWrite: true };

/** Answers in the protocol's JSON form, with `pageRows` rows in each reply. */
export class MemoryServer {
  /** Every request, in order. */
  requests = [];
  /** Called with each request before it is answered; its result is awaited. */
  holds = () => {};
  #clock = Date.now();
  #engine;
  #listeners = new Set();
  #hints = [];

  constructor(documents, pageRows = 1_000) {
    this.#engine = new Engine({ storage: memory(), schema: PACKAGES_SCHEMA, clock: () => this.#clock, deltaMs: DELTA, pageBytes: pageRows, writeMs: Infinity });
    // Pages are counted in rows.
    this.#engine.reader.weigh = () => 1;
    this.#engine.reader.weighMembers = () => 0;
    this.#engine.listeners.add((_org, defs) => (this.#hints = [...defs]));
    for (const data of documents) this.#put(data);
    // Long ago: pulls after this bring only later writes.
    this.#clock = Math.max(this.#clock, run(this.#engine.head(ORG)).highest) + 100 * DELTA;
  }

  /** Writes a document, and informs every page that listens. */
  async put(document) {
    this.#clock += 1;
    this.#put(document);
    const hints = this.#hints;
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
    const { session, epoch, ops, subs } = valueOfText(JSON.stringify(request));
    return JSON.parse(textOfValue(run(this.#engine.sync(ORG, CALLER, { session, epoch, ops, subs }))));
  }

  #put(data) {
    run(this.#engine.write(ORG, "doc.put", { class: "Package", data }));
  }
}
