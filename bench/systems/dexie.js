// Dexie: bulkPut, as its documentation advises for many documents.
import Dexie, { liveQuery } from "dexie";

import { listedBy } from "../page/data.js";

class System {
  async open() {
    this.db = new Dexie("dexie");
    const indexes = { lists: "*lists", group: "group, n", note: "note" };
    this.db.version(1).stores({ docs: `id, ${indexes[listedBy] ?? "section"}` });
    await this.db.open();
  }
  async arrive(batches) {
    for (const batch of batches) await this.db.docs.bulkPut(batch);
  }
  update(batches) {
    return this.arrive(batches);
  }
  all() {
    return this.db.docs.toArray();
  }
  list(section) {
    return this.db.docs.where(listedBy).equals(section).toArray();
  }
  get(ids) {
    return this.db.docs.bulkGet(ids);
  }
  range(from, limit) {
    return this.db.docs.where("n").aboveOrEqual(from).limit(limit).toArray();
  }
  #live(ask, callback) {
    const subscription = liveQuery(ask).subscribe({ next: callback, error: reportError });
    return () => subscription.unsubscribe();
  }
  liveRange(limit, callback) {
    return this.#live(() => this.db.docs.orderBy("n").limit(limit).toArray(), callback);
  }
  liveList(group, _count, callback) {
    return this.#live(() => this.list(group), callback);
  }
  liveItems(note, callback) {
    return this.#live(() => this.list(note), callback);
  }
  endItems(note) {
    return this.db.docs.where(listedBy).equals(note).delete();
  }
  change(id, n) {
    return this.db.docs.update(id, { n });
  }
  async close() {
    this.db.close();
  }
}

export const create = () => new System();
