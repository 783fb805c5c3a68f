/**
 * The addresses of contents (R23). A file is cut at each MiB, and each chunk is an object under the SHA-256 of its bytes. The
 * object of a longer file lists the digests of its chunks.
 */

import { join, sha256, toBytes, toText, type Bytes } from "../shared.js";
import type { FileRef } from "../session/files.js";
import { fault } from "./faults.js";

/** The bytes of a chunk, and the most of an object. */
export const CHUNK = 1 << 20;

/** The bytes of a digest. */
export const DIGEST = 32;

/** The bytes of the longest file: its list is one object. */
export const FILE_MAX = CHUNK * (CHUNK / DIGEST);

/** The number of chunks. The empty file is the empty chunk. */
export const countOf = (size: number): number => Math.ceil(size / CHUNK) || 1;

/** The bytes of the chunk at a place. */
export const lengthOf = (size: number, place: number): number => Math.min(CHUNK, size - place * CHUNK);

/** Whether a file has a list. */
export const isListed = (size: number): boolean => size > CHUNK;

/** The name of an object. */
export const shaOf = async (bytes: Bytes): Promise<string> => toText(await sha256(bytes));

/** The list of a file. */
export const listOf = (chunks: readonly string[]): Bytes => join(...chunks.map(toBytes));

/** The digests in a list. */
export const digestsOf = (list: Bytes): string[] =>
  Array.from({ length: list.length / DIGEST }, (_, place) => toText(list.subarray(place * DIGEST, (place + 1) * DIGEST)));

/** A reference, if it is one. */
export function isRef(ref: unknown): ref is FileRef {
  const { sha, size } = (ref ?? {}) as Partial<FileRef>;
  return (
    typeof sha === "string" &&
    // The two bits behind the hash are 0.
    /^[\w-]{42}[AEIMQUYcgkosw048]$/.test(sha) &&
    Number.isInteger(size) &&
    (size as number) >= 0 &&
    (size as number) <= FILE_MAX
  );
}

/** Checks a reference that the application gives. */
export function checkRef(ref: unknown): FileRef {
  if (isRef(ref)) return ref;
  throw fault("bad_option", "a reference to a file is a map with sha and size");
}
