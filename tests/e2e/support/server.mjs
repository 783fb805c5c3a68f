// The reference server as a process: imported into, started, killed, started again on the same port.
import { execFile } from "node:child_process";
import { cp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { folderFor, PACKAGES, PACKAGES_SCHEMA, SERVER } from "./paths.mjs";
import { startListening, stopProcess } from "./process.mjs";

const execute = promisify(execFile);

/** A server's folder and schema. `start` and `stop` may alternate; the address stays. */
export class ServerProcess {
  #child;
  #port = 0;
  #imports = 0;
  #copies = 0;

  constructor(folder, schemaFile, options, program = SERVER) {
    this.program = program;
    this.folder = folder;
    this.schemaFile = schemaFile;
    this.options = options;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  get port() {
    return this.#port;
  }

  /** Starts it, and waits until it listens. */
  async start() {
    const args = ["serve", "--schema", this.schemaFile, "--data", join(this.folder, "data"), ...this.options];
    const { child, port } = await startListening(this.program, [...args, "--listen", `127.0.0.1:${this.#port}`]);
    this.#child = child;
    this.#port = port;
    return this;
  }

  /** Stops it as an administrator would, or, with SIGKILL, as a failure would. */
  async stop(signal) {
    const child = this.#child;
    this.#child = undefined;
    await stopProcess(child, signal);
  }

  /** Imports documents, given as objects or as the path of a file; also while it serves. Returns its output. */
  async import(org, className, documents) {
    let file = documents;
    if (typeof documents !== "string") {
      file = join(this.folder, `import-${this.#imports++}.jsonl`);
      await writeFile(file, documents.map((document) => `${JSON.stringify(document)}\n`).join(""));
    }
    const args = ["import", "--schema", this.schemaFile, "--data", join(this.folder, "data")];
    const { stdout } = await execute(SERVER, [...args, "--org", org, "--class", className, file]);
    return stdout.trim();
  }

  /** Resolves once every write is older than DELTA: from then on no pull brings it twice. */
  async whenSettled(org) {
    const written = Date.now();
    const request = { method: "POST", headers: { "content-type": "application/json" } };
    const body = JSON.stringify({ p: 1, session: "settled", ops: [], subs: [] });
    let reply;
    do {
      const response = await fetch(`${this.url}/${org}/sync`, { ...request, body });
      if (!response.ok) throw new Error(`the server answers ${response.status}: ${await response.text()}`);
      reply = await response.json();
    } while (reply.now - reply.delta <= written);
  }

  /** Copies the data of a server that may serve meanwhile; returns the copy's folder. */
  async copyData() {
    const copy = join(this.folder, `copy-${this.#copies++}`);
    await cp(join(this.folder, "data"), copy, { recursive: true });
    return copy;
  }

  /** Replaces the data of a stopped server by a copy. */
  async restoreData(copy) {
    await rm(join(this.folder, "data"), { recursive: true });
    await cp(copy, join(this.folder, "data"), { recursive: true });
  }

  /** Runs another command of the server on its data. */
  async command(name, ...args) {
    const { stdout } = await execute(SERVER, [name, "--data", join(this.folder, "data"), ...args]);
    return stdout.trim();
  }
}

/** A server for the test `t`, not started yet. `schema` is an object, or the path of a file. */
export async function makeServer(t, { schema = PACKAGES_SCHEMA, options = [], program } = {}) {
  const folder = await folderFor(t);
  let schemaFile = schema;
  if (typeof schema !== "string") {
    schemaFile = join(folder, "schema.json");
    await writeFile(schemaFile, JSON.stringify(schema));
  }
  const server = new ServerProcess(folder, schemaFile, options, program);
  t.after(() => server.stop("SIGKILL"));
  return server;
}

/** A started server with the 20,000 packages in org `demo`. */
export async function packagesServer(t, options = []) {
  const server = await makeServer(t, { options });
  await server.import("demo", "Package", PACKAGES);
  return server.start();
}
