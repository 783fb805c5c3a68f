// Dexie: bulkPut, as its documentation advises for many documents.
import Dexie from "dexie";

import { listedBy } from "../page/data.js";

class System {
  async open() {
    this.db = new Dexie("dexie");
    this.db.version(1).stores({ docs: `id, ${listedBy === "lists" ? "*lists" : "section"}` });
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
  async close() {
    this.db.close();
  }
}

export const create = () => new System();
