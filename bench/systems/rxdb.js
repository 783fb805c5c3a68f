// RxDB on its Dexie storage, plain or with its free encryption: every property but the key and the index is encrypted.
import { createRxDatabase } from "rxdb";
import { wrappedKeyEncryptionCryptoJsStorage } from "rxdb/plugins/encryption-crypto-js";
import { getRxStorageDexie } from "rxdb/plugins/storage-dexie";

import { listedBy } from "../page/data.js";

const schema = {
  version: 0,
  primaryKey: "id",
  type: "object",
  properties: {
    id: { type: "string", maxLength: 100 },
    section: { type: "string", maxLength: 20 },
    ...(listedBy === "group" || listedBy === "note" ? { [listedBy]: { type: "string", maxLength: 20 } } : {}),
    title: { type: "string" },
    author: { type: "string" },
    // An index needs the limits of its values.
    n: { type: "number", ...(listedBy === "group" ? { minimum: -1_000_000, maximum: 1_000_000_000, multipleOf: 1 } : {}) },
    score: { type: "number" },
    isOpen: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    body: { type: "string" },
  },
  required: ["id", "section", ...(listedBy === "group" ? ["group", "n"] : []), ...(listedBy === "note" ? ["note"] : [])],
  indexes: listedBy === "group" ? ["group", "n"] : [listedBy],
};
const SECRET = ["title", "author", "n", "score", "isOpen", "tags", "body"];

class System {
  constructor(isEncrypted) {
    this.isEncrypted = isEncrypted;
  }
  async open() {
    const dexie = getRxStorageDexie();
    this.db = await createRxDatabase({
      name: "rxdb",
      storage: this.isEncrypted ? wrappedKeyEncryptionCryptoJsStorage({ storage: dexie }) : dexie,
      ...(this.isEncrypted && { password: "a passphrase of the benchmark" }),
      multiInstance: false,
    });
    await this.db.addCollections({ docs: { schema: this.isEncrypted ? { ...schema, encrypted: SECRET } : schema } });
  }
  async arrive(batches) {
    for (const batch of batches) {
      const { error } = await this.db.docs.bulkInsert(batch);
      if (error.length > 0) throw new Error(`${error.length} documents were refused`);
    }
  }
  async update(batches) {
    for (const batch of batches) {
      const { error } = await this.db.docs.bulkUpsert(batch);
      if (error.length > 0) throw new Error(`${error.length} documents were refused`);
    }
  }
  async #found(query) {
    return (await query.exec()).map((document) => document.toJSON());
  }
  all() {
    return this.#found(this.db.docs.find());
  }
  list(section) {
    return this.#found(this.db.docs.find({ selector: { [listedBy]: section } }));
  }
  async get(ids) {
    const found = await this.db.docs.findByIds([...new Set(ids)]).exec();
    return ids.map((id) => found.get(id).toJSON());
  }
  range(from, limit) {
    return this.#found(this.db.docs.find({ selector: { n: { $gte: from } }, sort: [{ n: "asc" }], limit }));
  }
  #live(query, callback) {
    const subscription = query.$.subscribe((found) => callback(found.map((document) => document.toJSON())));
    return () => subscription.unsubscribe();
  }
  liveRange(limit, callback) {
    return this.#live(this.db.docs.find({ selector: {}, sort: [{ n: "asc" }], limit }), callback);
  }
  liveList(group, _count, callback) {
    return this.#live(this.db.docs.find({ selector: { group } }), callback);
  }
  liveItems(note, callback) {
    return this.#live(this.db.docs.find({ selector: { [listedBy]: note } }), callback);
  }
  async endItems(note) {
    await this.db.docs.find({ selector: { [listedBy]: note } }).remove();
  }
  async change(id, n) {
    const document = await this.db.docs.findOne(id).exec();
    await document.incrementalPatch({ n });
  }
  async close() {
    await this.db.close();
  }
}

export const create = (variant) => new System(variant === "encrypted");
