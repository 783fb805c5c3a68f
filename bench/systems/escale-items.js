// Escale with the reference server, whose address the page is given: the items of one document, which somebody else writes.
import { defineSchema, init, open } from "escale";
import { rehearsal } from "escale/rehearsal";

import { NOTE } from "../page/data.js";

const schema = defineSchema({ Note: { key: ["id"] }, Doc: { in: "Note", key: ["note", "id"] } });

/** The last message of the server that the page received, and the bytes of all since it asked. */
class Messages {
  at = 0;
  bytes = 0;

  constructor() {
    const { fetch, WebSocket } = globalThis;
    const note = (bytes) => {
      this.at = performance.now();
      this.bytes += bytes;
    };
    globalThis.fetch = async (...request) => {
      const response = await fetch(...request);
      // Whole before the session reads it: its time begins with the last byte.
      const body = await response.arrayBuffer();
      note(body.byteLength);
      const { status, headers } = response;
      return new Response(body, { status, headers });
    };
    globalThis.WebSocket = class extends WebSocket {
      constructor(...address) {
        super(...address);
        this.addEventListener("message", ({ data }) => note(data.byteLength ?? data.length));
      }
    };
  }
}

class System {
  /** The server's last message before the list changed, and the bytes of all since the change was made. */
  heard;
  /** The table of the backup database in which the high-water mark is. */
  markTable = "beside.m";
  /** The table in which the leader tells other tabs that it is alive. */
  beatTable = "i";
  #messages;

  async load() {
    await init(undefined, { rehearsal });
    this.#messages = new Messages();
  }

  async open() {
    const server = new URL(location.href).searchParams.get("server");
    this.session = await open({ org: "bench", schema, server, key: new Uint8Array(32).fill(7) });
  }

  /** The server has all items: subscribes to them, until they are durable. */
  async arrive() {
    const ready = this.session.document("Note", [NOTE], { items: ["Doc"] }).whenReady();
    await ready;
    await this.session.flush();
  }

  liveItems(note, callback) {
    const tree = this.session.document("Note", [note], { items: ["Doc"] });
    return tree.subscribe(({ items }, { ready }) => {
      const { at, bytes } = this.#messages;
      this.heard = { at, bytes };
      if (ready) callback(items.Doc);
    });
  }

  /** Resolves once the session hears of changes as they happen. */
  settled() {
    return new Promise((resolve) => {
      const stop = this.session.status.subscribe(({ phase, updates }) => {
        if (phase !== "live" || updates !== "pushed") return;
        queueMicrotask(() => stop());
        resolve();
      });
    });
  }

  /** The runner writes on the server. */
  async update([documents]) {
    this.#messages.bytes = 0;
    await window.putOnServer(documents);
  }

  async endItems(note) {
    this.#messages.bytes = 0;
    await window.endOnServer(note);
  }

  async list(note) {
    return this.session.collection("Doc", { note }).whenReady();
  }

  flush() {
    return this.session.flush();
  }

  async close() {
    await this.session.close();
  }
}

export const create = () => new System();
