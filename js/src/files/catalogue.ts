/**
 * The records of `d` in memory: files with the digests of their chunks, and rules. And the names of the chunks that the
 * device holds. Other tabs change both; each change is made only on top of the record that this tab has read.
 */

import { fourBytes, join, textOf, utf8, type Bytes } from "../shared.js";
import { digestsOf, isListed, lengthOf, listOf } from "./address.js";
import type { Cipher } from "./cipher.js";
import { fault } from "./faults.js";
import type { FileRef } from "../session/files.js";
import { isSame, type Change, type Store } from "./store.js";

/** A rule of `keep`: a file, or the files of some documents. */
export interface Rule extends Partial<FileRef> {
  readonly class?: string;
  readonly match?: object;
  readonly properties?: readonly string[];
  readonly max?: number;
}

/** A record about a file, under its `sha`, or about a rule, under its id. */
export interface Entry {
  readonly key: string;
  readonly size: number;
  /** When the application added it; 0 if it did not, or if that is no reason any more. */
  readonly added: number;
  /** When it was read last. */
  readonly read: number;
  readonly rule?: Rule;
  /** The digests of its chunks. */
  readonly chunks: readonly string[];
}

/** An entry, as it is stored. */
export interface Known extends Entry {
  /** The name of its record, and the record as it was read. */
  readonly name: string;
  readonly sealed: Bytes;
  /** The names of its chunks. */
  readonly names: readonly string[];
}

/** How often a change is tried again on top of another tab's. */
const TRIES = 8;

/** A chunk, sealed for its place. */
export type Sealed = readonly ["c", name: string, Bytes];

export interface Catalogue {
  readonly store: Store;
  readonly cipher: Cipher;
  /** Calls after each change of an entry, or of the chunks of a file, here or in another tab. */
  onChange: (key: string) => void;
  entry(key: string): Known | undefined;
  all(): Known[];
  /** The files, with the names of their records and chunks. */
  files(): Known[];
  /** The names of all records that this tab knows. */
  recordNames(): ReadonlySet<string>;
  /** An entry that another tab may have made. */
  find(key: string): Promise<Known | undefined>;
  /** Reads a record again. */
  reload(key: string): Promise<Known | undefined>;
  /**
   * Changes an entry, on top of every tab's changes, together with other records. Undefined ends the entry. Errors:
   * `contention` if a condition of `also` does not hold.
   */
  save(key: string, change: (entry: Entry | undefined) => Entry | undefined, also?: Change): Promise<unknown>;
  /** The bytes of a file that are here. */
  here(key: string): number;
  /** The places of the chunks that a file lacks here. */
  missing(key: string): number[];
  isHeld(name: string): boolean;
  /** Chunks came or went. */
  note(put: readonly string[], gone: readonly string[]): void;
  /** The bytes of a chunk, if the device has them. */
  chunk(digest: string): Promise<Bytes | undefined>;
  sealed(digest: string, bytes: Bytes): Promise<Sealed>;
  end(): void;
}

/**
 * Reads all records. The name of one follows from the keys alone: without it, the database belongs to a store that is no
 * more, and is emptied.
 */
export async function openCatalogue(store: Store, cipher: Cipher): Promise<Catalogue> {
  const entries = new Map<string, Known>();
  /** The chunks that the device holds. */
  const held = new Set<string>();
  const all = (): Known[] => [...entries.values()];

  const note = (put: readonly string[], gone: readonly string[]): void => {
    for (const name of put) held.add(name);
    for (const name of gone) held.delete(name);
  };

  const namesOf = ({ rule, chunks }: Entry): Promise<string[]> => Promise.all(rule ? [] : chunks.map((digest) => cipher.name("c", digest)));

  const read = async (name: string): Promise<Known | undefined> => {
    const sealed = await store.read("d", name);
    const plain = sealed && (await cipher.open("d", name, sealed));
    if (!plain) return undefined;
    const entry = decode(plain);
    return { ...entry, name, sealed, names: await namesOf(entry) };
  };

  const set = (key: string, known: Known | undefined): Known | undefined => {
    if (known) entries.set(key, known);
    else entries.delete(key);
    catalogue.onChange(key);
    return known;
  };

  const reload = async (key: string): Promise<Known | undefined> => set(key, await read(await cipher.name("d", key)));

  const entryOf = (key: string): Known | undefined => entries.get(key);

  const catalogue: Catalogue = {
    store,
    cipher,
    onChange: () => {},
    entry: entryOf,
    all,
    files: () => all().filter(({ rule }) => !rule),
    recordNames: () => new Set([mark, ...all().map(({ name }) => name)]),
    find: async (key) => entryOf(key) ?? reload(key),
    reload,
    async save(key, change, also = {}) {
      const name = await cipher.name("d", key);
      const { put = [] } = also;
      for (let tries = 0; tries < TRIES; tries++) {
        const before = entries.get(key);
        const entry = change(before);
        const isOther = entry !== before;
        if (!isOther && !also.put) return;
        const known = isOther
          ? entry && {
              ...entry,
              name,
              sealed: await cipher.seal("d", name, encode(entry)),
              // To name all of the file's chunks with each of its chunks would take longer and longer.
              names: before?.chunks === entry.chunks ? before.names : await namesOf(entry),
            }
          : before;
        const isDone = await store.write({
          ...also,
          put: known && isOther ? [...put, ["d", name, known.sealed]] : put,
          remove: known || !before ? [] : [["d", name]],
          was: [[name, before?.sealed]],
        });
        if (isDone) {
          note(put.flatMap(([table, name]) => (table === "c" ? [name] : [])), []);
          set(key, known);
          return;
        }
        await reload(key);
        if (isSame(entries.get(key)?.sealed, before?.sealed)) break;
      }
      throw fault("contention", "other tabs change the file");
    },
    here(key) {
      const { size = 0, names = [] } = entryOf(key) ?? {};
      return names.reduce((sum, name, place) => sum + (held.has(name) ? lengthOf(size, place) : 0), 0);
    },
    missing: (key) => (entryOf(key)?.names ?? []).flatMap((name, place) => (held.has(name) ? [] : [place])),
    isHeld: (name) => held.has(name),
    note,
    async chunk(digest) {
      const name = await cipher.name("c", digest);
      const sealed = await store.read("c", name);
      const plain = sealed && (await cipher.open("c", name, sealed));
      if (plain) held.add(name);
      else held.delete(name);
      return plain;
    },
    async sealed(digest, bytes) {
      const name = await cipher.name("c", digest);
      return ["c", name, await cipher.seal("c", name, bytes)];
    },
    end() {
      catalogue.onChange = () => {};
      entries.clear();
      cipher.end();
      store.end();
    },
  };

  const mark = await cipher.name("d", "");
  let names = await store.names("d");
  if (!names.includes(mark)) {
    // Other tabs may open it now, and add files: the first one makes the mark.
    await store.write({ clear: true, put: [["d", mark, new Uint8Array()]], was: [[mark, undefined]], isDurable: true });
    names = await store.names("d");
  }
  const load = async (name: string): Promise<void> => {
    if (name === mark) return;
    // A failure may pass. A record that does not open twice is damaged.
    const known = (await read(name)) ?? (await read(name));
    if (known) entries.set(known.key, known);
    else await store.write({ remove: [["d", name]] });
  };
  await Promise.all(names.map(load));
  note(await store.names("c"), []);
  return catalogue;
}

/** The length of the JSON in four bytes, the JSON, and the list of a file that has one. */
function encode({ key, size, added, read, rule, chunks }: Entry): Bytes {
  const json = utf8(JSON.stringify({ key, size, added, read, rule }));
  return join(fourBytes(json.length), json, listOf(isListed(size) ? chunks : []));
}

function decode(plain: Bytes): Entry {
  const length = new DataView(plain.buffer).getUint32(0);
  const rest = JSON.parse(textOf(plain.subarray(4, 4 + length))) as Omit<Entry, "chunks">;
  return { ...rest, chunks: isListed(rest.size) ? digestsOf(plain.subarray(4 + length)) : [rest.key] };
}
