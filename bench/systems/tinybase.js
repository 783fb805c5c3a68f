// TinyBase with its IndexedDB persister, which saves the whole table.
import { createIndexes, createStore } from "tinybase";
import { createIndexedDbPersister } from "tinybase/persisters/persister-indexed-db";

class System {
  async open() {
    this.store = createStore();
    this.indexes = createIndexes(this.store);
    this.persister = createIndexedDbPersister(this.store, "tinybase");
    await this.persister.load();
    this.indexes.setIndexDefinition("section", "docs", "section");
  }
  #put(batch) {
    this.store.transaction(() => {
      for (const document of batch) this.store.setRow("docs", document.id, document);
    });
  }
  async arrive(batches) {
    for (const batch of batches) this.#put(batch);
    await this.persister.save();
  }
  async update(batches) {
    for (const batch of batches) {
      this.#put(batch);
      await this.persister.save();
    }
  }
  async all() {
    return Object.values(this.store.getTable("docs"));
  }
  async list(section) {
    return this.indexes.getSliceRowIds("section", section).map((id) => this.store.getRow("docs", id));
  }
  async get(ids) {
    return ids.map((id) => this.store.getRow("docs", id));
  }
  async close() {
    await this.persister.destroy();
  }
}

export const create = () => new System();
