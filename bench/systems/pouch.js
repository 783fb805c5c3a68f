// PouchDB, plain or with crypto-pouch. The id begins with the section: ranges of ids are its fastest index.
import cryptoPouch from "crypto-pouch";
import PouchDB from "pouchdb-browser";

PouchDB.plugin(cryptoPouch);

class System {
  #sections = new Map();
  #revisions = new Map();
  constructor(isEncrypted) {
    this.isEncrypted = isEncrypted;
  }
  async open() {
    this.db = new PouchDB("pouch", { auto_compaction: true });
    if (this.isEncrypted) await this.db.crypto({ password: "a passphrase of the benchmark" });
  }
  #named = (document) => ({ ...document, _id: `${document.section}/${document.id}` });
  async #write(batch) {
    const results = await this.db.bulkDocs(batch);
    for (const result of results) {
      if (result.error) throw new Error(result.message);
      this.#revisions.set(result.id, result.rev);
    }
  }
  async arrive(batches) {
    for (const batch of batches) {
      for (const { id, section } of batch) this.#sections.set(id, section);
      await this.#write(batch.map(this.#named));
    }
  }
  async update(batches) {
    for (const batch of batches) {
      const named = batch.map(this.#named);
      if (named.some(({ _id }) => !this.#revisions.has(_id))) {
        const { rows } = await this.db.allDocs({ keys: named.map(({ _id }) => _id) });
        for (const row of rows) this.#revisions.set(row.id, row.value.rev);
      }
      await this.#write(named.map((document) => ({ ...document, _rev: this.#revisions.get(document._id) })));
    }
  }
  #remember = (document) => {
    this.#sections.set(document.id, document.section);
    return document;
  };
  async all() {
    const { rows } = await this.db.allDocs({ include_docs: true });
    return rows.map(({ doc }) => this.#remember(doc)).filter(({ id }) => id !== undefined);
  }
  async list(section) {
    const { rows } = await this.db.allDocs({ include_docs: true, startkey: `${section}/`, endkey: `${section}/\uffff` });
    return rows.map(({ doc }) => doc);
  }
  async get(ids) {
    if (this.#sections.size === 0) await this.all();
    const keys = ids.map((id) => `${this.#sections.get(id)}/${id}`);
    return (await this.db.allDocs({ include_docs: true, keys })).rows.map(({ doc }) => doc);
  }
  async close() {
    await this.db.close();
  }
}

export const create = (variant) => new System(variant === "encrypted");
