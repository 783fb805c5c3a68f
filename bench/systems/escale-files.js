// Escale's files: sealed on the device, with a server if the page is given one.
import { defineSchema, init, open } from "escale";
import { rehearsal } from "escale/rehearsal";

const schema = defineSchema({ Note: { key: ["id"], properties: { file: "file" } } });

/** A server that cannot be reached. */
const NO_SERVER = {
  sync: () => Promise.reject(new Error("no network")),
};

class System {
  async load() {
    await init(undefined, { rehearsal });
  }

  async open() {
    const server = new URL(location.href).searchParams.get("server") ?? NO_SERVER;
    this.session = await open({ org: "bench", schema, server, key: new Uint8Array(32).fill(7), files: () => import("escale/files") });
    this.files = await this.session.files();
  }

  addFile(file) {
    return this.files.add(file);
  }

  fileBytes(ref) {
    return this.files.read(ref);
  }

  async sendFile(file) {
    await this.session.put("Note", { id: "n1", file }).accepted;
  }

  close() {
    return this.session.close();
  }
}

export const create = () => new System();
