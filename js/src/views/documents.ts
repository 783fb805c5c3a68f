/**
 * The documents that this session has read from the core: each version is read once, and is the same frozen object for
 * every caller.
 */

import type { Core, ReadRow } from "../wasm/core.js";
import { documentOf, isOlder } from "../schema/migrate.js";
import type { Schema } from "../schema/schema.js";
import type { ClassDeclaration } from "../schema/schema-types.js";
import { freezeDeep, needsReviving, reviveMap, type Raw } from "../schema/raw.js";
import { joinedKey } from "../schema/writing.js";

/** Documents read in one crossing: enough to amortise the call, and few enough that no call takes long. */
const READ_MAX = 1_000;

/** A crossing that has not started yet: more ids may join it. */
interface Crossing {
  ids: Set<number>;
  rows: Promise<{ byId: Map<number, ReadRow>; revive: boolean }>;
}

/** The result of {@link Documents.load}. */
export interface Loaded {
  /** The documents that could be read, by id. */
  documents: Map<number, object>;
  /** Whether some ids became invalid during the read. The caller must then ask for the ids again. */
  overtaken: boolean;
}

/**
 * Every document that crossed, by the id of its version. A version is the same object for as long as the core names it.
 */
export class Documents {
  readonly #core: Pick<Core, "read">;
  readonly #schema: Schema;
  readonly #onError: (error: unknown) => void;
  readonly #byId = new Map<number, object>();
  /** Ids by document. {@link idOf} fills it lazily from `#unnamed`. */
  #ids = new WeakMap<object, number>();
  #unnamed: number[] = [];
  /** Documents by class and joined key, valid as long as nothing changes. It answers like the core's `find`. */
  readonly #byKey = new Map<string, Map<string, object>>();
  /** Counts how often `#byKey` was cleared. */
  #turn = 0;
  /** Ids whose data failed to migrate. They are not read again, and each is reported once. */
  readonly #unreadable = new Set<number>();
  /** Ids that became invalid during a read. The rows that the read brings for them must not be kept. */
  readonly #goneInFlight = new Set<number>();
  /** Ids whose stored data is of an older release than the document handed out. */
  readonly #migrated = new Set<number>();
  #reads = 0;
  #isOver = false;
  #crossing: Crossing | undefined;

  constructor(core: Pick<Core, "read">, schema: Schema, onError: (error: unknown) => void) {
    this.#core = core;
    this.#schema = schema;
    this.#onError = onError;
  }

  /** Reads the documents of these ids, all of one class. */
  async load(className: string, ids: Uint32Array | number[]): Promise<Loaded> {
    const documents = new Map<number, object>();
    const missing: number[] = [];
    for (const id of ids) {
      const held = this.#byId.get(id);
      if (held) documents.set(id, held);
      else if (!this.#unreadable.has(id)) missing.push(id);
    }
    let overtaken = false;
    let before: Promise<boolean> | undefined;
    for (let start = 0; start < missing.length; start += READ_MAX) {
      // The device reads one slice while this side parses the slice before.
      const next = this.#read(className, missing.slice(start, start + READ_MAX), documents);
      next.catch(() => {});
      if (await before) overtaken = true;
      before = next;
    }
    if (await before) overtaken = true;
    return { documents, overtaken };
  }

  /** The id of a document that this session handed out; undefined for any other object. */
  idOf(document: object): number | undefined {
    for (const id of this.#unnamed) {
      const made = this.#byId.get(id);
      if (made) this.#ids.set(made, id);
    }
    this.#unnamed = [];
    return this.#ids.get(document);
  }

  /** The document of a key, if it is known without a call of the core. */
  at(className: string, key: readonly string[]): object | undefined {
    if (key.length !== this.#schema.classes[className]?.key.length) return undefined;
    return this.#byKey.get(className)?.get(joinedKey(key));
  }

  /** The core has just found this document by its key. */
  found(className: string, document: object): void {
    const declared = this.#schema.classes[className];
    if (declared) this.#note(this.#keyed(className), declared, document);
  }

  /** Something changed, or is about to: `#byKey` is no longer valid. */
  forgetKeys(): void {
    this.#turn++;
    this.#byKey.clear();
  }

  /** The document of an id, if it was read before. */
  held(id: number): object | undefined {
    return this.#byId.get(id);
  }

  /** The document of an id, if a migration has produced it; otherwise undefined. */
  migrated(id: number): object | undefined {
    return this.#migrated.has(id) ? this.#byId.get(id) : undefined;
  }

  /** The core no longer names these versions. */
  evict(gone: Uint32Array): void {
    this.forgetKeys();
    for (const id of gone) {
      this.#byId.delete(id);
      this.#unreadable.delete(id);
      this.#migrated.delete(id);
      if (this.#reads > 0) this.#goneInFlight.add(id);
    }
  }

  /** Another core is in use, and ids have new meanings: documents handed out before have no id any more. */
  renew(): void {
    this.clear();
    this.#ids = new WeakMap();
    this.#unnamed = [];
  }

  /** The session is over: forgets everything, and keeps nothing of reads that are still in flight. */
  end(): void {
    this.#isOver = true;
    this.clear();
  }

  clear(): void {
    this.forgetKeys();
    this.#byId.clear();
    this.#unreadable.clear();
    this.#migrated.clear();
  }

  async #read(className: string, ids: number[], into: Map<number, object>): Promise<boolean> {
    this.#reads++;
    const turn = this.#turn;
    try {
      const { byId, revive } = await this.#cross(ids);
      const declared = this.#schema.classes[className] as ClassDeclaration;
      // If the turn has changed, these rows may no longer be the newest versions of their keys.
      const keyed = turn === this.#turn && !this.#isOver ? this.#keyed(className) : undefined;
      for (const id of ids) {
        const row = byId.get(id);
        if (!row || this.#goneInFlight.has(id)) continue;
        // Two reads can overlap; the first one to arrive has made the object.
        const document = this.#byId.get(id) ?? this.#make(className, row, revive);
        if (!document) continue;
        into.set(id, document);
        if (keyed) this.#note(keyed, declared, document);
      }
      return ids.some((id) => this.#goneInFlight.has(id));
    } finally {
      if (--this.#reads === 0) this.#goneInFlight.clear();
    }
  }

  /**
   * Joins reads that are requested in the same turn of the event loop: a thousand calls of `get` then open each page of
   * the store once.
   */
  #cross(ids: number[]): Crossing["rows"] {
    let crossing = this.#crossing;
    if (!crossing || crossing.ids.size + ids.length > READ_MAX) {
      const joined = new Set<number>();
      const rows = (async () => {
        // In place of `.then(..)` after it, which Parcel takes for a compiled import, and breaks.
        await Promise.resolve();
        if (this.#crossing?.ids === joined) this.#crossing = undefined;
        const text = await this.#core.read(Uint32Array.from(joined));
        const list = JSON.parse(text) as ReadRow[];
        const byId = new Map<number, ReadRow>();
        for (const row of list) byId.set(row[0], row);
        return { byId, revive: needsReviving(text) };
      })();
      crossing = this.#crossing = { ids: joined, rows };
    }
    for (const id of ids) crossing.ids.add(id);
    return crossing.rows;
  }

  #keyed(className: string): Map<string, object> {
    const keyed = this.#byKey.get(className) ?? new Map<string, object>();
    this.#byKey.set(className, keyed);
    return keyed;
  }

  #note(keyed: Map<string, object>, declared: ClassDeclaration, document: object): void {
    keyed.set(joinedKey(declared.key.map((name) => (document as Raw)[name] as string)), document);
  }

  #make(className: string, [id, read, release]: ReadRow, revive: boolean): object | undefined {
    try {
      const data = revive ? reviveMap(read) : read;
      // Data of the class's own release is used as it is: nothing is copied.
      const document =
        release === undefined ? freezeDeep(data) : documentOf(this.#schema, className, { ...data, release });
      if (this.#isOver) return document;
      this.#byId.set(id, document);
      if (release !== undefined && isOlder(this.#schema, className, release)) this.#migrated.add(id);
      if (this.#unnamed.push(id) > 2 * this.#byId.size + READ_MAX) this.#unnamed = this.#unnamed.filter((one) => this.#byId.has(one));
      return document;
    } catch (error) {
      this.#unreadable.add(id);
      this.#onError(error);
      return undefined;
    }
  }
}
