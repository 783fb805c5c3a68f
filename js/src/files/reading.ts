/** Reading a file: the chunks that are here, and those of the server, which are checked before anybody sees them (R23). */

import type { Bytes } from "../base/binary.js";
import type { EscaleError } from "../base/errors.js";
import type { FileRef } from "../session/files.js";
import { CHUNK, countOf, DIGEST, digestsOf, isListed, lengthOf, shaOf } from "./address.js";
import type { Catalogue, Entry } from "./catalogue.js";
import { fault, toFault } from "./faults.js";
import { AT_ONCE, type Pauses } from "./pauses.js";
import type { Remote } from "./remote.js";
import { CACHE_MAX, full, type Room } from "./room.js";
import type { Tabs } from "./tabs.js";

/** How often bytes are requested again. */
const AGAIN_MAX = 3;

/** How old the time of the last reading may be. */
const READ_MS = 60_000;

interface Parts {
  readonly catalogue: Catalogue;
  readonly remote: Remote;
  readonly room: Room;
  readonly tabs: Tabs;
  readonly pauses: Pauses;
}

/** A part of a file, as positions of bytes. */
export interface Range {
  readonly from?: number;
  readonly to?: number;
}

export class Reading {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** The digests of a file's chunks. Errors: those of the server, `file_damaged`. */
  async chunks(ref: FileRef): Promise<readonly string[]> {
    const { catalogue } = this.#parts;
    const { sha, size } = ref;
    const known = await catalogue.find(sha);
    if (known?.size === size) return known.chunks;
    if (known?.added && isListed(size)) throw fault("file_damaged", "the file has another size");
    if (!isListed(size)) return [sha];
    return this.#parts.tabs.alone(sha, async () => {
      const known = await catalogue.reload(sha);
      if (known?.size === size) return known.chunks;
      const chunks = digestsOf(await this.#fetch(sha, countOf(size) * DIGEST));
      await this.#keep(ref, chunks, []).catch(() => {});
      return chunks;
    });
  }

  /** A chunk of a file: from the device, or from the server. `isKept` says that it is loaded to stay: then a full device is an error. */
  async chunk(ref: FileRef, chunks: readonly string[], place: number, isKept = false): Promise<Bytes> {
    const digest = chunks[place] as string;
    const length = lengthOf(ref.size, place);
    const { catalogue, tabs } = this.#parts;
    const local = async (): Promise<Bytes | undefined> => {
      const bytes = await catalogue.chunk(digest);
      return bytes?.length === length ? bytes : undefined;
    };
    return (
      (await local()) ??
      tabs.alone(await catalogue.cipher.name("c", digest), async () => {
        // Another tab may have loaded it meanwhile.
        const held = await local();
        if (held) return held;
        if (isKept && !(await this.#parts.room.has(length))) throw full();
        const bytes = await this.#fetch(digest, length);
        const hasRoom = isKept || (ref.size <= CACHE_MAX && (await this.#parts.room.has(length)));
        // Shown all the same if it cannot be kept: a cache is no promise.
        const kept = hasRoom ? catalogue.sealed(digest, bytes).then((put) => this.#keep(ref, chunks, [put])) : undefined;
        await (isKept ? kept : kept?.catch(() => {}));
        return bytes;
      })
    );
  }

  /** The bytes of a range. Only its chunks are read, some of them ahead. */
  stream(ref: FileRef, { from = 0, to = ref.size }: Range): ReadableStream<Uint8Array> {
    if (![from, to].every((at) => Number.isInteger(at) && at >= 0) || from > to) throw fault("bad_option", "range: from, to");
    const end = Math.min(to, ref.size);
    let [place, next] = [Math.floor(from / CHUNK), Math.floor(from / CHUNK)];
    const last = from < end ? countOf(end) - 1 : -1;
    const ahead: Promise<Bytes>[] = [];
    let chunks: readonly string[] | undefined;
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        try {
          if (place > last) {
            controller.close();
            return;
          }
          if (!chunks) {
            chunks = await this.chunks(ref);
            this.#note(ref);
          }
          for (; next <= last && ahead.length < AT_ONCE; next++) {
            const reading = this.chunk(ref, chunks, next);
            reading.catch(() => {});
            ahead.push(reading);
          }
          const bytes = await (ahead.shift() as Promise<Bytes>);
          const start = place * CHUNK;
          controller.enqueue(bytes.subarray(Math.max(0, from - start), end - start));
          if (++place > last) controller.close();
        } catch (error) {
          controller.error(toFault(error));
        }
      },
      cancel: () => {
        next = last + 1;
      },
    });
  }

  /** Bytes of the server that match their hash and their length. Errors: `file_damaged`, after four attempts. */
  async #fetch(sha: string, length: number): Promise<Bytes> {
    const { remote, pauses } = this.#parts;
    for (let again = 0; ; again++) {
      try {
        const bytes = await remote.get(sha, length);
        if (bytes.length === length && (await shaOf(bytes)) === sha) return bytes;
        throw fault("file_damaged", "not the bytes of the hash");
      } catch (error) {
        if (!(error as EscaleError).retryable || again === AGAIN_MAX || !remote.isOpen) throw error;
        await pauses.after(error as EscaleError, again);
      }
    }
  }

  /** Keeps a chunk, and the record of its file. */
  async #keep(ref: FileRef, chunks: readonly string[], put: readonly (readonly ["c", string, Bytes])[]): Promise<void> {
    const { catalogue, room, tabs } = this.#parts;
    const { sha, size } = ref;
    const now = Date.now();
    const change = (entry: Entry | undefined): Entry =>
      entry && (entry.size === size || !isListed(size)) ? entry : { key: sha, size, added: 0, read: now, chunks };
    await room.write(() => catalogue.save(sha, change, { put }));
    tabs.post({ put: put.map(([, name]) => name), record: sha });
  }

  /** Notes that a file was read. */
  #note({ sha }: FileRef): void {
    const now = Date.now();
    const entry = this.#parts.catalogue.entry(sha);
    if (!entry || now - entry.read < READ_MS) return;
    void this.#parts.catalogue.save(sha, (entry) => entry && { ...entry, read: now }).catch(() => {});
  }
}
