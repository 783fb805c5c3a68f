// RxDB's attachments on its Dexie storage, in clear.
import { addRxPlugin, createRxDatabase } from "rxdb";
import { RxDBAttachmentsPlugin } from "rxdb/plugins/attachments";
import { getRxStorageDexie } from "rxdb/plugins/storage-dexie";

addRxPlugin(RxDBAttachmentsPlugin);

const schema = {
  version: 0,
  primaryKey: "id",
  type: "object",
  properties: { id: { type: "string", maxLength: 100 } },
  attachments: {},
};

class System {
  async open() {
    this.db = await createRxDatabase({ name: "rxdb", storage: getRxStorageDexie(), multiInstance: false });
    await this.db.addCollections({ notes: { schema } });
  }

  async addFile(file) {
    const note = await this.db.notes.insert({ id: "n1" });
    await note.putAttachment({ id: "file", data: file, type: "application/octet-stream" });
    return {};
  }

  async fileBytes() {
    const note = await this.db.notes.findOne("n1").exec();
    return (await note.getAttachment("file").getData()).stream();
  }

  async close() {
    await this.db.close();
  }
}

export const create = () => new System();
