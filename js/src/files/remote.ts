/** The server's objects (docs/protocol.md, "Files"), over HTTP or by the application's adapter. */

import { EscaleError } from "../index.js";
import { inTime, isBytes, join, textOf, type Bytes } from "../shared.js";
import { partsOf } from "../platform/streams.js";
import type { FilesHost } from "../session/files.js";
import type { Adapter } from "../wasm/core.js";
import { CHUNK } from "./address.js";
import { askedIn, closed, fault, faultOf, type Refusal } from "./faults.js";

/** The transfers at once, and the steps of other work. */
export const AT_ONCE = 3;

/** How long a body may be silent. */
const SILENT_MS = 30_000;

/** The bytes in a millisecond of the slowest line: one of 1 KB a second carries a chunk. */
const BYTES_PER_MS = 0.8;

/** The names in one question. */
const HAVE_MAX = 1_000;

/** The epoch of the server's database. */
export type Epoch = readonly [number, string];

export interface Remote {
  /** Whether the server may be asked. */
  isOpen(): boolean;
  /** Which of the objects are there. To ask is to confirm them, in the epoch of the answer. */
  have(shas: readonly string[]): Promise<{ there: Set<string>; epoch: Epoch }>;
  /**
   * Stores an object. `read` gives its bytes once its turn has come, so that no others are in memory. `size` is that of the
   * file that it lists. Errors: `file_missing`, with the chunks that are not there.
   */
  put(sha: string, read: () => Bytes | Promise<Bytes>, size?: number): Promise<void>;
  /** The bytes of an object, unchecked. It reads no more than a little above `length`. */
  get(sha: string, length: number): Promise<Bytes>;
}

export function remoteOf(host: FilesHost, signal: AbortSignal): Remote {
  const { server } = host;
  /** The transfers under way. */
  const busy = new Set<Promise<void>>();

  const isOpen = (): boolean => {
    const { mode, phase } = host.status;
    return !signal.aborted && server !== undefined && mode !== "avion" && phase !== "closed";
  };

  /** Waits for one of the places for transfers. */
  const inPlace = async <T>(transfer: () => Promise<T>): Promise<T> => {
    while (busy.size >= AT_ONCE) await Promise.race(busy);
    const work = transfer();
    const place = work.then(() => {}, () => {});
    busy.add(place);
    try {
      return await work;
    } finally {
      busy.delete(place);
    }
  };

  const adapter = (): NonNullable<Adapter["files"]> | undefined => {
    if (signal.aborted) throw closed();
    if (!isOpen()) throw fault("offline", "there is no server now");
    if (typeof server !== "object") return undefined;
    if (!server.files) throw fault("not_supported", "the adapter has no files");
    return server.files;
  };

  /** Sends a request, with another token if the server refuses the first one. */
  const send = async (path: string, length: number, method: string, body?: string | Bytes): Promise<Bytes> => {
    const ask = async (token: string | undefined): Promise<Bytes> => {
      const ending = new AbortController();
      const end = (): void => ending.abort();
      signal.addEventListener("abort", end);
      let timer: ReturnType<typeof setTimeout> | undefined;
      const beat = (more = 0): void => {
        clearTimeout(timer);
        timer = setTimeout(end, SILENT_MS + more);
      };
      beat((body?.length ?? 0) / BYTES_PER_MS);
      try {
        const response = await fetch(`${server as string}/${encodeURIComponent(host.org)}/${path}`, {
          method,
          headers: {
            ...(typeof body === "string" && { "content-type": "application/json" }),
            ...(token && { authorization: `Bearer ${token}` }),
          },
          signal: ending.signal,
          credentials: "omit",
          cache: "no-store",
          body: body ?? null,
        });
        const { ok, status } = response;
        const bytes = await take(response, ok ? length : CHUNK, beat);
        if (!ok) {
          throw faultOf(status, { retryAfter: askedIn(response.headers.get("retry-after"), Date.now()), ...(bytes && refusalIn(parsed(bytes))) });
        }
        if (!bytes) throw fault("file_damaged", "the body is longer than the object");
        return bytes;
      } catch (error) {
        if (signal.aborted) throw closed();
        throw error instanceof EscaleError ? error : fault("offline", "the server could not be reached", error);
      } finally {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
      }
    };
    const token = await host.token();
    try {
      return await ask(token);
    } catch (error) {
      if ((error as EscaleError).code !== "unauthorized") throw error;
      // Without a token, the next one is another.
      const refused = token ?? "";
      const other = await host.token(refused);
      if (other === undefined || other === refused) throw error;
      return ask(other);
    }
  };

  const answerTo = async (asked: readonly string[]): Promise<{ there: readonly string[]; epoch: Epoch }> => {
    const own = adapter();
    const answer: unknown = own ? await given(own.have(asked), 0) : parsed(await send("files", CHUNK, "POST", JSON.stringify({ p: 1, have: asked })));
    const { epoch, there = [] } = (answer ?? {}) as { epoch?: unknown; there?: unknown };
    const isEpoch = Array.isArray(epoch) && typeof epoch[0] === "number" && typeof epoch[1] === "string";
    if (!isEpoch || !Array.isArray(there)) throw fault("bad_reply", "files: epoch or there");
    return { epoch: epoch as unknown as Epoch, there: there as string[] };
  };

  return {
    isOpen,
    async have(shas) {
      const there = new Set<string>();
      let epoch: Epoch | undefined;
      const all = [...new Set(shas)];
      for (let from = 0; from < all.length || !epoch; from += HAVE_MAX) {
        const answer = await answerTo(all.slice(from, from + HAVE_MAX));
        // A database that was replaced meanwhile has another epoch: the core then asks again for all of it.
        epoch ??= answer.epoch;
        for (const sha of answer.there) there.add(sha);
      }
      return { there, epoch };
    },
    put: (sha, read, size) =>
      inPlace(async () => {
        const own = adapter();
        const bytes = await read();
        if (own) await given(own.put(sha, bytes, size), bytes.length);
        else await send(`file/${sha}${size === undefined ? "" : `?list=${size}`}`, CHUNK, "PUT", bytes);
      }),
    get: (sha, length) =>
      inPlace(async () => {
        const own = adapter();
        try {
          const bytes = await (own ? given(own.get(sha), length) : send(`file/${sha}`, length, "GET"));
          if (isBytes(bytes)) return bytes;
        } catch (error) {
          const isMissing = (error as { code?: string }).code === "not_found";
          throw isMissing ? fault("file_missing", "not on the server, or not for this account", error) : error;
        }
        throw fault("bad_reply", "the adapter's get gives bytes");
      }),
  };
}

/** The bytes of a body. Undefined if there are more than `length`: it stops reading then. */
async function take({ body }: Response, length: number, beat: () => void): Promise<Bytes | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  beat();
  for await (const part of body ? partsOf(body) : []) {
    beat();
    size += part.length;
    if (size > length) return undefined;
    parts.push(part);
  }
  return join(...parts);
}

function parsed(bytes: Bytes): unknown {
  try {
    return JSON.parse(textOf(bytes));
  } catch {
    return undefined;
  }
}

/** A refusal, if it is one. */
const refusalIn = (body: unknown): (Refusal & { status?: number }) | undefined =>
  typeof (body as Refusal | undefined)?.code === "string" ? (body as Refusal) : undefined;

/** An answer of the adapter, to a call that moves so many bytes. It has as long as a request without an adapter. */
async function given<T>(answer: Promise<T>, bytes: number): Promise<T> {
  try {
    return await inTime(answer, SILENT_MS + bytes / BYTES_PER_MS);
  } catch (cause) {
    const refusal = refusalIn(cause);
    throw refusal ? faultOf(refusal.status ?? 0, refusal) : fault("offline", "the adapter failed", cause);
  }
}
