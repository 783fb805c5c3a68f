// PouchDB's attachments, in clear.
import PouchDB from "pouchdb-browser";

class System {
  async open() {
    this.db = new PouchDB("pouch", { auto_compaction: true });
    await this.db.info();
  }

  async addFile(file) {
    await this.db.putAttachment("n1", "file", file, "application/octet-stream");
    return {};
  }

  async fileBytes() {
    return (await this.db.getAttachment("n1", "file")).stream();
  }

  async close() {
    await this.db.close();
  }
}

export const create = () => new System();
