/** The server's objects (docs/protocol.md, "Files"), over HTTP or by the application's adapter. */

import { join, type Bytes } from "../base/binary.js";
import { isBytes } from "../base/bytes.js";
import { EscaleError } from "../index.js";
import type { FilesHost } from "../session/files.js";
import type { Adapter } from "../wasm/core.js";
import { CHUNK } from "./address.js";
import { closed, fault, faultOf, type Refusal } from "./faults.js";
import { AT_ONCE } from "./pauses.js";

/** How long a body may be silent. */
const SILENT_MS = 30_000;

/** The bytes that a server takes in a millisecond, at least. */
const BYTES_PER_MS = 5;

/** The names in one question. */
const HAVE_MAX = 1_000;

/** The epoch of the server's database. */
export type Epoch = readonly [number, string];

interface Request {
  readonly method: "GET" | "PUT" | "POST";
  readonly body?: string | Bytes;
}

export class Remote {
  readonly #host: FilesHost;
  readonly #signal: AbortSignal;
  /** The transfers under way. */
  readonly #busy = new Set<Promise<void>>();

  constructor(host: FilesHost, signal: AbortSignal) {
    this.#host = host;
    this.#signal = signal;
  }

  /** Whether the server may be asked. */
  get isOpen(): boolean {
    const { server, status } = this.#host;
    return !this.#signal.aborted && server !== undefined && status.mode !== "avion" && status.phase !== "closed";
  }

  /** Which of the objects are there. To ask is to confirm them, in the epoch of the answer. */
  async have(shas: readonly string[]): Promise<{ there: Set<string>; epoch: Epoch }> {
    const there = new Set<string>();
    let epoch: Epoch | undefined;
    const all = [...new Set(shas)];
    for (let from = 0; from < all.length || !epoch; from += HAVE_MAX) {
      const answer = await this.#have(all.slice(from, from + HAVE_MAX));
      // A database that was replaced meanwhile has another epoch: the core then asks again for all of it.
      epoch ??= answer.epoch;
      for (const sha of answer.there) there.add(sha);
    }
    return { there, epoch };
  }

  async #have(asked: readonly string[]): Promise<{ there: readonly string[]; epoch: Epoch }> {
    const adapter = this.#adapter();
    const answer: unknown = adapter
      ? await given(adapter.have(asked))
      : parsed(await this.#send("files", { method: "POST", body: JSON.stringify({ p: 1, have: asked }) }, CHUNK));
    const { epoch, there = [] } = (answer ?? {}) as { epoch?: unknown; there?: unknown };
    const isEpoch = Array.isArray(epoch) && typeof epoch[0] === "number" && typeof epoch[1] === "string";
    if (!isEpoch || !Array.isArray(there)) throw fault("bad_reply", "files: epoch or there");
    return { epoch: epoch as unknown as Epoch, there: there as string[] };
  }

  /**
   * Stores an object. `read` gives its bytes once its turn has come, so that no others are in memory. `size` is that of the
   * file that it lists. Errors: `file_missing`, with the chunks that are not there.
   */
  put(sha: string, read: () => Bytes | Promise<Bytes>, size?: number): Promise<void> {
    return this.#turn(async () => {
      const adapter = this.#adapter();
      const bytes = await read();
      if (adapter) await given(adapter.put(sha, bytes, size));
      else await this.#send(`file/${sha}${size === undefined ? "" : `?list=${size}`}`, { method: "PUT", body: bytes }, CHUNK);
    });
  }

  /** The bytes of an object, unchecked. It reads no more than a little above `length`. */
  get(sha: string, length: number): Promise<Bytes> {
    return this.#turn(async () => {
      const adapter = this.#adapter();
      try {
        const bytes = await (adapter ? given(adapter.get(sha)) : this.#send(`file/${sha}`, { method: "GET" }, length));
        if (isBytes(bytes)) return bytes as Bytes;
      } catch (error) {
        const isMissing = (error as { code?: string }).code === "not_found";
        throw isMissing ? fault("file_missing", "not on the server, or not for this account", error) : error;
      }
      throw fault("bad_reply", "the adapter's get gives bytes");
    });
  }

  /** Waits for one of the places for transfers. */
  async #turn<T>(transfer: () => Promise<T>): Promise<T> {
    while (this.#busy.size >= AT_ONCE) await Promise.race(this.#busy);
    const work = transfer();
    const place = work.then(() => {}, () => {});
    this.#busy.add(place);
    try {
      return await work;
    } finally {
      this.#busy.delete(place);
    }
  }

  #adapter(): NonNullable<Adapter["files"]> | undefined {
    if (this.#signal.aborted) throw closed();
    if (!this.isOpen) throw fault("offline", "there is no server now");
    const { server } = this.#host;
    if (typeof server !== "object") return undefined;
    if (!server.files) throw fault("not_supported", "the adapter has no files");
    return server.files;
  }

  /** Sends a request, with another token if the server refuses the first one. */
  async #send(path: string, request: Request, length: number): Promise<Bytes> {
    const { org, server } = this.#host;
    const url = `${server as string}/${encodeURIComponent(org)}/${path}`;
    let token = await this.#host.token();
    try {
      return await this.#ask(url, request, length, token);
    } catch (error) {
      if ((error as EscaleError).code !== "unauthorized") throw error;
      const refused = token ?? "";
      token = await this.#host.token(refused);
      if (token === undefined || token === refused) throw error;
      return this.#ask(url, request, length, token);
    }
  }

  async #ask(url: string, { method, body }: Request, length: number, token: string | undefined): Promise<Bytes> {
    const headers = {
      ...(typeof body === "string" && { "content-type": "application/json" }),
      ...(token && { authorization: `Bearer ${token}` }),
    };
    const ending = new AbortController();
    const end = (): void => ending.abort();
    this.#signal.addEventListener("abort", end);
    let timer = setTimeout(end, SILENT_MS + (body?.length ?? 0) / BYTES_PER_MS);
    const beat = (): void => {
      clearTimeout(timer);
      timer = setTimeout(end, SILENT_MS);
    };
    try {
      const response = await fetch(url, {
        method,
        headers,
        signal: ending.signal,
        credentials: "omit",
        cache: "no-store",
        ...(body !== undefined && { body }),
      });
      const bytes = await take(response, response.ok ? length : CHUNK, beat);
      if (!response.ok) {
        const pause = response.headers.get("retry-after");
        const seconds = Number(pause) || (Date.parse(pause ?? "") - Date.now()) / 1_000;
        throw faultOf(response.status, { ...(bytes && refusalIn(bytes)), ...(pause && { retryAfter: seconds }) });
      }
      if (!bytes) throw fault("file_damaged", "the body is longer than the object");
      return bytes;
    } catch (error) {
      if (this.#signal.aborted) throw closed();
      throw error instanceof EscaleError ? error : fault("offline", "the server could not be reached", error);
    } finally {
      clearTimeout(timer);
      this.#signal.removeEventListener("abort", end);
    }
  }
}

/** The bytes of a body. Undefined if there are more than `length`: it stops reading then. */
async function take(response: Response, length: number, beat: () => void): Promise<Bytes | undefined> {
  const reader = response.body?.getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    beat();
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done) return join(...parts);
    size += value.length;
    if (size > length) {
      void reader?.cancel().catch(() => {});
      return undefined;
    }
    parts.push(value);
  }
}

function parsed(bytes: Bytes): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

/** The refusal in a body, if it is one. */
function refusalIn(bytes: Bytes): Refusal {
  const body = parsed(bytes) as Refusal | undefined;
  return typeof body?.code === "string" ? body : {};
}

/** An answer of the adapter. */
async function given<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    const refusal = (cause ?? {}) as Refusal & { status?: number };
    throw typeof refusal.code === "string" ? faultOf(refusal.status ?? 0, refusal) : fault("offline", "the adapter failed", cause);
  }
}
