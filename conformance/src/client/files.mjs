// The objects of files: their names, and requests to the three endpoints.
import { createHash, randomBytes } from "node:crypto";

import { Failure, Skip } from "../check.mjs";
import { isFaultOf } from "./session.mjs";

export const CHUNK_BYTES = 2 ** 20;

const digestOf = (bytes) => createHash("sha256").update(bytes).digest();

/** The name of an object. */
export const shaOf = (bytes) => digestOf(bytes).toString("base64url");

/** Bytes that no other check stores. */
export const freshBytes = (length = 20) => randomBytes(length);

/** A file of these chunks: its list, and its reference. */
export function fileOf(chunks) {
  const list = Buffer.concat(chunks.map(digestOf));
  return { list, sha: shaOf(list), size: chunks.reduce((sum, { length }) => sum + length, 0) };
}

/** The reference to a file of one object. */
export const referenceTo = (bytes) => ({ sha: shaOf(bytes), size: bytes.length });

export class Files {
  constructor(kit, caller = {}) {
    Object.assign(this, { kit, caller });
  }
  /** Sends bytes. `query` says that they are a list; `sha` gives them another name. */
  put(bytes, { sha = shaOf(bytes), query = "", ...more } = {}) {
    return this.kit.exchange({ ...this.caller, method: "PUT", path: `file/${sha}${query}`, body: bytes, ...more });
  }
  /** Stores bytes, which has to succeed, and returns the answer. */
  async store(bytes, more) {
    const answer = await this.put(bytes, more);
    if (answer.status !== 200) throw new Failure(`status 200 for an upload, not ${answer.status}`, answer);
    return answer;
  }
  /** Stores the chunks of a file, and its list. */
  async storeFile(chunks) {
    for (const chunk of chunks) await this.store(chunk);
    const { list, size } = fileOf(chunks);
    await this.store(list, { query: `?list=${size}` });
  }
  get(sha, { range, headers, ...more } = {}) {
    return this.kit.exchange({ ...this.caller, method: "GET", path: `file/${sha}`, headers: { ...headers, Range: range }, ...more });
  }
  have(names, { message, ...more } = {}) {
    return this.kit.exchange({ ...this.caller, form: this.kit.nextForm(), path: "files", message: { p: 1, have: names, ...message }, ...more });
  }
  /** The names of those objects that are there. */
  async there(...names) {
    const answer = await this.have(names);
    if (answer.status !== 200) throw new Failure(`status 200 for a have, not ${answer.status}`, answer);
    return answer.reply?.there ?? [];
  }
  /** Expects that an object can be read. */
  async isThere(bytes) {
    const answer = await this.get(shaOf(bytes));
    this.kit.equal(answer.status, 200, "the status of a GET", answer);
    this.kit.equal(answer.bytes, new Uint8Array(bytes), "the bytes of an object", answer);
    return answer;
  }
  /** Expects that an object cannot be found by this caller. */
  async isAbsent(sha) {
    this.kit.isRefused(await this.get(sha), 404, "not_found");
    this.kit.equal(await this.there(sha), [], "there", this.kit.last);
  }
}

/** The files of a server; a server may keep none. `http.files` sees that all its endpoints then say so. */
export async function filesOf(kit, caller) {
  const files = new Files(kit, caller);
  const { status, reply } = await files.get(shaOf(freshBytes()));
  if (status === 501 && isFaultOf(reply, "not_supported")) throw new Skip("the server keeps no files");
  return files;
}
