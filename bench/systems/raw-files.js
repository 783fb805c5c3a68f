// IndexedDB by hand: a file as records of 1 MiB in clear, each in a strict transaction of its own: Escale makes
// the same promise.
const CHUNK = 1 << 20;

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

class System {
  async open() {
    const request = indexedDB.open("raw-files", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("chunks");
      request.result.createObjectStore("files");
    };
    this.db = await done(request);
  }

  #put(table, key, value, durability) {
    return new Promise((resolve, reject) => {
      const transaction = this.db.transaction(table, "readwrite", { durability });
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
      transaction.objectStore(table).put(value, key);
    });
  }

  async addFile(file) {
    let count = 0;
    for (let from = 0; from < file.size; from += CHUNK) {
      await this.#put("chunks", count, new Uint8Array(await file.slice(from, from + CHUNK).arrayBuffer()), "strict");
      count += 1;
    }
    await this.#put("files", "f1", { count }, "strict");
    return { count };
  }

  async *fileBytes({ count }) {
    for (let n = 0; n < count; n += 1) yield await done(this.db.transaction("chunks").objectStore("chunks").get(n));
  }

  close() {
    this.db.close();
  }
}

export const create = () => new System();
