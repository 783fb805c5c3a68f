/**
 * The records of `d` in memory: files with the digests of their chunks, and rules. And the names of the chunks that the
 * device holds. Other tabs change both; each change is made only on top of the record that this tab has read.
 */

import { join, utf8, type Bytes } from "../base/binary.js";
import { countOf, DIGEST, digestsOf, isListed, lengthOf, listOf } from "./address.js";
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
  readonly error?: string;
  readonly rule?: Rule;
  /** The digests of its chunks. */
  readonly chunks: readonly string[];
}

/** An entry, as it is stored. */
export interface Known {
  readonly entry: Entry;
  /** The name of its record, and the record as it was read. */
  readonly name: string;
  readonly sealed: Bytes;
  /** The names of its chunks. */
  readonly names: readonly string[];
}

/** How often a change is tried again on top of another tab's. */
const TRIES = 8;

export class Catalogue {
  readonly store: Store;
  readonly cipher: Cipher;
  /** Calls after each change of an entry, or of the chunks of a file, here or in another tab. */
  onChange: (key: string) => void = () => {};
  readonly #known = new Map<string, Known>();
  /** The chunks that the device holds. */
  readonly #held = new Set<string>();

  #mark = "";

  private constructor(store: Store, cipher: Cipher) {
    this.store = store;
    this.cipher = cipher;
  }

  /**
   * Reads all records. The name of one follows from the keys alone: without it, the database belongs to a store that is no
   * more, and is emptied.
   */
  static async open(store: Store, cipher: Cipher): Promise<Catalogue> {
    const catalogue = new Catalogue(store, cipher);
    const mark = await cipher.name("d", "");
    const names = await store.names("d");
    if (!names.includes(mark)) {
      await store.clear();
      await store.write({ put: [["d", mark, new Uint8Array()]], isDurable: true });
      names.length = 0;
    }
    const load = async (name: string): Promise<void> => {
      // A failure may pass. A record that does not open twice is damaged.
      const known = (await catalogue.#read(name)) ?? (await catalogue.#read(name));
      if (known) catalogue.#known.set(known.entry.key, known);
      else await store.write({ remove: [["d", name]] });
    };
    await Promise.all(names.filter((name) => name !== mark).map(load));
    catalogue.note(await store.names("c"), []);
    catalogue.#mark = mark;
    return catalogue;
  }

  entry(key: string): Entry | undefined {
    return this.#known.get(key)?.entry;
  }

  entries(): Entry[] {
    return [...this.#known.values()].map(({ entry }) => entry);
  }

  /** An entry that another tab may have made. */
  async find(key: string): Promise<Entry | undefined> {
    return this.entry(key) ?? this.reload(key);
  }

  /** Reads a record again. */
  async reload(key: string): Promise<Entry | undefined> {
    const known = await this.#read(await this.cipher.name("d", key));
    if (known) this.#known.set(key, known);
    else this.#known.delete(key);
    this.onChange(key);
    return known?.entry;
  }

  /**
   * Changes an entry, on top of every tab's changes, together with other records. Undefined ends the entry. Errors:
   * `contention` if a condition of `also` does not hold.
   */
  async save(key: string, change: (entry: Entry | undefined) => Entry | undefined, also: Change = {}): Promise<Entry | undefined> {
    const name = await this.cipher.name("d", key);
    for (let tries = 0; tries < TRIES; tries++) {
      const before = this.#known.get(key);
      const entry = change(before?.entry);
      if (entry === before?.entry && !also.put) return entry;
      const isOther = entry !== before?.entry;
      const sealed = isOther ? entry && (await this.cipher.seal("d", name, encode(entry))) : before?.sealed;
      // Each chunk of a download comes through here: to name all of the file's chunks each time would take longer and longer.
      const names = before && entry?.chunks === before.entry.chunks ? before.names : entry ? await this.#namesOf(entry) : [];
      const isDone = await this.store.write({
        ...also,
        put: [...(also.put ?? []), ...(sealed && isOther ? [["d", name, sealed] as const] : [])],
        remove: sealed || !before ? [] : [["d", name]],
        was: [[name, before?.sealed]],
      });
      if (isDone) {
        if (entry && sealed) this.#known.set(key, { entry, name, sealed, names });
        else this.#known.delete(key);
        this.note(also.put?.flatMap(([table, name]) => (table === "c" ? [name] : [])) ?? [], []);
        this.onChange(key);
        return entry;
      }
      await this.reload(key);
      if (isSame(this.#known.get(key)?.sealed, before?.sealed)) break;
    }
    throw fault("contention", "other tabs change the file");
  }

  /** The bytes of a file that are here. */
  here(key: string): number {
    const known = this.#known.get(key);
    if (!known) return 0;
    const { entry, names } = known;
    return names.reduce((sum, name, place) => sum + (this.#held.has(name) ? lengthOf(entry.size, place) : 0), 0);
  }

  /** The places of the chunks that a file lacks here. */
  missing(key: string): number[] {
    const { names = [] } = this.#known.get(key) ?? {};
    return names.flatMap((name, place) => (this.#held.has(name) ? [] : [place]));
  }

  isHeld(name: string): boolean {
    return this.#held.has(name);
  }

  /** Chunks came or went. */
  note(put: readonly string[], gone: readonly string[]): void {
    for (const name of put) this.#held.add(name);
    for (const name of gone) this.#held.delete(name);
  }

  /** The bytes of a chunk, if the device has them. */
  async chunk(digest: string): Promise<Bytes | undefined> {
    const name = await this.cipher.name("c", digest);
    const sealed = await this.store.read("c", name);
    const plain = sealed && (await this.cipher.open("c", name, sealed));
    if (plain) this.note([name], []);
    else this.note([], [name]);
    return plain;
  }

  /** A chunk, sealed for its place. */
  async sealed(digest: string, bytes: Bytes): Promise<readonly ["c", string, Bytes]> {
    const name = await this.cipher.name("c", digest);
    return ["c", name, await this.cipher.seal("c", name, bytes)];
  }

  /** The files, with the names of their records and chunks. */
  files(): Known[] {
    return [...this.#known.values()].filter(({ entry }) => !entry.rule);
  }

  /** The names of all records that this tab knows. */
  recordNames(): ReadonlySet<string> {
    return new Set([this.#mark, ...[...this.#known.values()].map(({ name }) => name)]);
  }

  end(): void {
    this.onChange = () => {};
    this.#known.clear();
    this.cipher.end();
    this.store.end();
  }

  async #read(name: string): Promise<Known | undefined> {
    const sealed = await this.store.read("d", name);
    const plain = sealed && (await this.cipher.open("d", name, sealed));
    if (!plain) return undefined;
    const entry = decode(plain);
    return { entry, name, sealed, names: await this.#namesOf(entry) };
  }

  #namesOf({ rule, chunks }: Entry): Promise<string[]> {
    return Promise.all(rule ? [] : chunks.map((digest) => this.cipher.name("c", digest)));
  }
}

/** The length of the JSON in four bytes, the JSON, and the list of a file that has one. */
function encode({ chunks, ...rest }: Entry): Bytes {
  const json = utf8(JSON.stringify(rest));
  const head = new Uint8Array(4);
  new DataView(head.buffer).setUint32(0, json.length);
  return join(head, json, isListed(rest.size) ? listOf(chunks) : new Uint8Array());
}

function decode(plain: Bytes): Entry {
  const length = new DataView(plain.buffer, plain.byteOffset).getUint32(0);
  const rest = JSON.parse(new TextDecoder().decode(plain.subarray(4, 4 + length))) as Omit<Entry, "chunks">;
  return { ...rest, chunks: isListed(rest.size) ? digestsOf(plain.subarray(4 + length)) : [rest.key] };
}

/** Whether a list has the length that the size demands. */
export const isListOf = (list: Uint8Array, size: number): boolean => list.length === countOf(size) * DIGEST;
