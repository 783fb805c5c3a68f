/** Adding a file: it is cut, hashed, sealed and stored one chunk at a time, so that memory holds a few chunks of any file. */

import type { EscaleError } from "../base/errors.js";
import { isBytes, type Bytes } from "../shared.js";
import { partsOf } from "../platform/streams.js";
import type { FileRef } from "../session/files.js";
import { CHUNK, FILE_MAX, isListed, listOf, shaOf } from "./address.js";
import type { Catalogue } from "./catalogue.js";
import { fault, full, toFault } from "./faults.js";
import type { Space } from "./space.js";
import type { Tabs } from "./tabs.js";

/** The bytes of a file, in any form. */
export type Data = Blob | Uint8Array | ReadableStream<Uint8Array>;

/** A file's type, and its name for people. */
export interface About {
  readonly type?: string | undefined;
  readonly name?: string | undefined;
}

interface Parts {
  readonly catalogue: Catalogue;
  readonly space: Space;
  readonly tabs: Tabs;
}

/** Adds a file. Resolves once its record is on the device. A failure before leaves chunks that no record names. */
export async function add(parts: Parts, data: Data, about: About): Promise<FileRef> {
  try {
    return await addOnce(parts, data, about);
  } catch (error) {
    // Another tab has removed a chunk that its cache shared with this file.
    const isAgain = (error as EscaleError).code === "contention" && !isStream(data);
    if (isAgain) return addOnce(parts, data, about);
    throw toFault(error);
  }
}

async function addOnce({ catalogue, space, tabs }: Parts, data: Data, about: About): Promise<FileRef> {
  const put = async (digest: string, bytes: Bytes): Promise<string> => {
    if (!(await space.has(bytes.length))) throw full();
    const sealed = await catalogue.sealed(digest, bytes);
    // Chromium keeps each chunk in a file of its own, and syncs only those of a durable transaction.
    await space.write(() => catalogue.store.write({ put: [sealed], isDurable: true }));
    const [, name] = sealed;
    catalogue.note([name], []);
    return name;
  };
  return tabs.adding(async () => {
    const chunks: string[] = [];
    /** The names of the chunks, by their digests. */
    const names = new Map<string, string>();
    let size = 0;
    for await (const chunk of cut(sourceOf(data))) {
      size += chunk.length;
      if (size > FILE_MAX) throw fault("too_large", `a file has at most ${FILE_MAX} bytes`);
      const digest = await shaOf(chunk);
      if (!names.has(digest)) names.set(digest, await put(digest, chunk));
      chunks.push(digest);
    }
    const sha = isListed(size) ? await shaOf(listOf(chunks)) : (chunks[0] as string);
    const [now, have] = [Date.now(), [...names.values()]];
    await space.write(() =>
      // The bytes of a file can be the list of a longer one. Its record has both.
      catalogue.save(sha, (entry) => ({ key: sha, size, chunks, ...(entry && isListed(entry.size) && entry), added: now, read: now }), { have, isDurable: true }),
    );
    tabs.post({ put: have, record: sha });
    // Without the fields that are undefined.
    return Object.freeze(JSON.parse(JSON.stringify({ sha, size, type: about.type, name: about.name })) as FileRef);
  });
}

/** The parts of the bytes. */
function sourceOf(data: Data): Iterable<Uint8Array> | AsyncIterable<Uint8Array> {
  if (isStream(data)) return partsOf(data);
  if (typeof (data as Partial<Blob> | null)?.stream === "function") return partsOf((data as Blob).stream());
  if (!isBytes(data)) throw fault("bad_option", "add takes a Blob, bytes, or a stream of bytes");
  return [data];
}

/** The chunks of a file: all but the last one are full. The empty file is one empty chunk. */
async function* cut(source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): AsyncGenerator<Bytes> {
  let chunk = new Uint8Array(CHUNK);
  let [filled, isFirst] = [0, true];
  for await (const value of source) {
    if (!isBytes(value)) throw fault("bad_option", "the stream does not give bytes");
    for (let at = 0; at < value.length; ) {
      const part = value.subarray(at, at + CHUNK - filled);
      chunk.set(part, filled);
      at += part.length;
      filled += part.length;
      if (filled < CHUNK) continue;
      yield chunk;
      [chunk, filled, isFirst] = [new Uint8Array(CHUNK), 0, false];
    }
  }
  if (filled > 0 || isFirst) yield chunk.slice(0, filled);
}

const isStream = (data: Data): data is ReadableStream<Uint8Array> => typeof (data as Partial<ReadableStream> | null)?.getReader === "function";
