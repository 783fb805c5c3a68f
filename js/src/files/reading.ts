/** Reading a file: the chunks that are here, and those of the server, which are checked before anybody sees them (R23). */

import type { EscaleError } from "../base/errors.js";
import type { Bytes } from "../shared.js";
import type { FileRef } from "../session/files.js";
import { CHUNK, countOf, DIGEST, digestsOf, isListed, lengthOf, shaOf } from "./address.js";
import type { Catalogue, Sealed } from "./catalogue.js";
import { fault, full, toFault } from "./faults.js";
import type { Pauses } from "./retry.js";
import { CACHE_MAX } from "./plan.js";
import { AT_ONCE, type Remote } from "./remote.js";
import type { Space } from "./space.js";
import type { Tabs } from "./tabs.js";

/** How often bytes are requested again. */
const AGAIN_MAX = 3;

/** How old the time of the last reading may be. */
const READ_MS = 60_000;

interface Parts {
  readonly catalogue: Catalogue;
  readonly remote: Remote;
  readonly space: Space;
  readonly tabs: Tabs;
  readonly pauses: Pauses;
}

/** A part of a file, as positions of bytes. */
export interface Range {
  readonly from?: number;
  readonly to?: number;
}

export interface Reading {
  /** The digests of a file's chunks. Errors: those of the server, `file_damaged`. */
  chunks(ref: FileRef): Promise<readonly string[]>;
  /** A chunk of a file: from the device, or from the server. `isKept` says that it is loaded to stay: then a full device is an error. */
  chunk(ref: FileRef, chunks: readonly string[], place: number, isKept?: boolean): Promise<Bytes>;
  /** The bytes of a range. Only its chunks are read, some of them ahead. */
  stream(ref: FileRef, range: Range): ReadableStream<Uint8Array>;
}

export function readingOf({ catalogue, remote, space, tabs, pauses }: Parts): Reading {
  /** Bytes of the server that match their hash and their length. Errors: `file_damaged`, after four attempts. */
  const load = async (sha: string, length: number): Promise<Bytes> => {
    for (let again = 0; ; again++) {
      try {
        const bytes = await remote.get(sha, length);
        if (bytes.length === length && (await shaOf(bytes)) === sha) return bytes;
        throw fault("file_damaged", "not the bytes of the hash");
      } catch (error) {
        if (!(error as EscaleError).retryable || again === AGAIN_MAX || !remote.isOpen()) throw error;
        await pauses.after(error as EscaleError, again);
      }
    }
  };

  /** Keeps a chunk, and the record of its file. */
  const keep = async ({ sha, size }: FileRef, chunks: readonly string[], put: readonly Sealed[]): Promise<void> => {
    const read = Date.now();
    await space.write(() =>
      catalogue.save(sha, (entry) => (entry && (entry.size === size || !isListed(size)) ? entry : { key: sha, size, added: 0, read, chunks }), { put }),
    );
    tabs.post({ put: put.map(([, name]) => name), record: sha });
  };

  /** Notes that a file was read. */
  const note = (sha: string): void => {
    const read = Date.now();
    const entry = catalogue.entry(sha);
    if (entry && read - entry.read >= READ_MS) catalogue.save(sha, (entry) => entry && { ...entry, read }).catch(() => {});
  };

  const chunksOf = async (ref: FileRef): Promise<readonly string[]> => {
    const { sha, size } = ref;
    const known = await catalogue.find(sha);
    if (known?.size === size) return known.chunks;
    if (!isListed(size)) return [sha];
    if (known?.added) throw fault("file_damaged", "the file has another size");
    return tabs.alone(sha, async () => {
      const known = await catalogue.reload(sha);
      if (known?.size === size) return known.chunks;
      const chunks = digestsOf(await load(sha, countOf(size) * DIGEST));
      await keep(ref, chunks, []).catch(() => {});
      return chunks;
    });
  };

  const chunkOf = async (ref: FileRef, chunks: readonly string[], place: number, isKept = false): Promise<Bytes> => {
    const digest = chunks[place] as string;
    const length = lengthOf(ref.size, place);
    const local = async (): Promise<Bytes | undefined> => {
      const bytes = await catalogue.chunk(digest);
      return bytes?.length === length ? bytes : undefined;
    };
    const fetched = async (): Promise<Bytes> => {
      if (isKept && !(await space.has(length))) throw full();
      const bytes = await load(digest, length);
      const hasRoom = isKept || (ref.size <= CACHE_MAX && (await space.has(length)));
      const kept = hasRoom && catalogue.sealed(digest, bytes).then((put) => keep(ref, chunks, [put]));
      // Shown all the same if it cannot be kept: a cache is no promise.
      await (isKept ? kept : kept && kept.catch(() => {}));
      return bytes;
    };
    // Another tab may load it meanwhile.
    return (await local()) ?? tabs.alone(await catalogue.cipher.name("c", digest), async () => (await local()) ?? fetched());
  };

  return {
    chunks: chunksOf,
    chunk: chunkOf,
    stream(ref, { from = 0, to = ref.size }) {
      if (![from, to].every((at) => Number.isInteger(at) && at >= 0) || from > to) throw fault("bad_option", "range: from, to");
      const end = Math.min(to, ref.size);
      let place = Math.floor(from / CHUNK);
      let next = place;
      const last = from < end ? countOf(end) - 1 : -1;
      const ahead: Promise<Bytes>[] = [];
      let chunks: readonly string[] | undefined;
      return new ReadableStream<Uint8Array>({
        async pull(controller) {
          try {
            if (place <= last) {
              if (!chunks) {
                chunks = await chunksOf(ref);
                note(ref.sha);
              }
              for (; next <= last && ahead.length < AT_ONCE; next++) {
                const reading = chunkOf(ref, chunks, next);
                reading.catch(() => {});
                ahead.push(reading);
              }
              const bytes = await (ahead.shift() as Promise<Bytes>);
              const start = place++ * CHUNK;
              controller.enqueue(bytes.subarray(Math.max(0, from - start), end - start));
            }
            if (place > last) controller.close();
          } catch (error) {
            controller.error(toFault(error));
          }
        },
        cancel: () => void (next = last + 1),
      });
    },
  };
}
