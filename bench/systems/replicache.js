// Replicache: a pull brings a patch of one batch. Its internal `persist` is awaited, which it otherwise runs when idle.
import { ReplicacheImpl } from "replicache/impl";

class System {
  #patches = [];
  #cookie = 0;
  async open() {
    this.rep = new ReplicacheImpl({
      name: "bench",
      licenseKey: "l00000000000000000000000000000000",
      indexes: { section: { jsonPointer: "/section", prefix: "doc/" } },
      pullInterval: null,
      logLevel: "error",
      puller: async () => {
        const patch = this.#patches.shift() ?? [];
        return { httpRequestInfo: { httpStatusCode: 200, errorMessage: "" }, response: { cookie: ++this.#cookie, lastMutationIDChanges: {}, patch } };
      },
    });
    this.#cookie = Date.now();
    await this.rep.clientGroupID;
  }
  async arrive(batches) {
    for (const batch of batches) {
      this.#patches.push(batch.map((document) => ({ op: "put", key: `doc/${document.id}`, value: document })));
      await this.rep.pull({ now: true });
    }
    await this.#durable();
  }
  async update(batches) {
    for (const batch of batches) {
      this.#patches.push(batch.map((document) => ({ op: "put", key: `doc/${document.id}`, value: document })));
      await this.rep.pull({ now: true });
      await this.#durable();
    }
  }
  /** Persists. If it is already persisting by itself, another call fails an assertion instead of waiting. */
  async #durable() {
    for (;;) {
      try {
        return await this.rep.persist();
      } catch (error) {
        if (!/^Assertion failed/.test(error.message)) throw error;
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    }
  }
  all() {
    return this.rep.query((tx) => tx.scan({ prefix: "doc/" }).values().toArray());
  }
  list(section) {
    // The start of a range; its end is a prefix only.
    return this.rep.query((tx) => tx.scan({ indexName: "section", prefix: section }).values().toArray());
  }
  get(ids) {
    return this.rep.query((tx) => Promise.all(ids.map((id) => tx.get(`doc/${id}`))));
  }
  async close() {
    await this.rep.close();
  }
}

export const create = () => new System();
