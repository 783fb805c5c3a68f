// Yjs with y-indexeddb: a map of sections, each a map of documents, in one Y.Doc, with one transaction for each batch.
import { IndexeddbPersistence } from "y-indexeddb";
import * as Y from "yjs";

class System {
  #places = new Map();
  async open() {
    this.doc = new Y.Doc();
    this.persistence = new IndexeddbPersistence("yjs", this.doc);
    await this.persistence.whenSynced;
    this.sections = this.doc.getMap("sections");
    for (const [section, documents] of this.sections) for (const id of documents.keys()) this.#places.set(id, section);
  }
  #put(batch) {
    this.doc.transact(() => {
      for (const document of batch) {
        let section = this.sections.get(document.section);
        if (!section) this.sections.set(document.section, (section = new Y.Map()));
        section.set(document.id, document);
        this.#places.set(document.id, document.section);
      }
    });
  }
  /**
   * Each update is stored in its own transaction as it arrives. So a transaction that starts after them ends after
   * them.
   */
  async #stored() {
    const transaction = this.persistence.db.transaction("updates", "readwrite");
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
      transaction.objectStore("updates").count();
    });
  }
  async arrive(batches) {
    for (const batch of batches) this.#put(batch);
    await this.#stored();
  }
  async update(batches) {
    for (const batch of batches) {
      this.#put(batch);
      await this.#stored();
    }
  }
  async all() {
    return [...this.sections.values()].flatMap((documents) => [...documents.values()]);
  }
  async list(section) {
    return [...this.sections.get(section).values()];
  }
  async get(ids) {
    return ids.map((id) => this.sections.get(this.#places.get(id)).get(id));
  }
  async close() {
    await this.persistence.destroy();
  }
}

export const create = () => new System();
