import type { Core, ReadRow } from "./core.js";
import { documentOf, isOlder } from "./migrate.js";
import type { Schema } from "./schema.js";
import { needsReviving, reviveMap } from "./values.js";

/** Documents read in one crossing: large enough to amortise it, small enough that no call lasts. */
const READ_MAX = 1_000;

/** A crossing that more ids may still join. */
interface Crossing {
  ids: Set<number>;
  rows: Promise<{ byId: Map<number, ReadRow>; revive: boolean }>;
}

/** What {@link Documents.load} found. */
export interface Loaded {
  /** Those that could be read, by id. */
  documents: Map<number, object>;
  /** Ids that went out of use while they were being read: what gave them is to be asked again. */
  overtaken: boolean;
}

/**
 * Every document that crossed, by the id of its version: the same version is the same object for as long as the
 * core names it.
 */
export class Documents {
  readonly #core: Pick<Core, "read">;
  readonly #schema: Schema;
  readonly #onError: (error: unknown) => void;
  readonly #byId = new Map<number, object>();
  #ids = new WeakMap<object, number>();
  /** Ids whose data no migration could bring up: not read again, told once. */
  readonly #unreadable = new Set<number>();
  /** Ids that went out of use while a read was in flight; its rows for them must not be kept. */
  readonly #goneInFlight = new Set<number>();
  /** Ids whose data rests in an older release than what was handed out. */
  readonly #migrated = new Set<number>();
  #reads = 0;
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
      // The device reads one slice while the one before is parsed.
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
    return this.#ids.get(document);
  }

  /** The document of an id, where it is at hand. */
  held(id: number): object | undefined {
    return this.#byId.get(id);
  }

  /** The document of an id that a migration has brought up; undefined for any other. */
  migrated(id: number): object | undefined {
    return this.#migrated.has(id) ? this.#byId.get(id) : undefined;
  }

  /** The core names these versions no more. */
  evict(gone: Uint32Array): void {
    for (const id of gone) {
      this.#byId.delete(id);
      this.#unreadable.delete(id);
      this.#migrated.delete(id);
      if (this.#reads > 0) this.#goneInFlight.add(id);
    }
  }

  /** Ids mean something else from now on: the documents that were handed out have none. */
  renew(): void {
    this.clear();
    this.#ids = new WeakMap();
  }

  /** Forgets everything. */
  clear(): void {
    this.#byId.clear();
    this.#unreadable.clear();
    this.#migrated.clear();
  }

  async #read(className: string, ids: number[], into: Map<number, object>): Promise<boolean> {
    this.#reads++;
    try {
      const { byId, revive } = await this.#cross(ids);
      for (const id of ids) {
        const row = byId.get(id);
        if (!row || this.#goneInFlight.has(id)) continue;
        // Two reads can cross; the first to arrive made the object.
        const document = this.#byId.get(id) ?? this.#make(className, row, revive);
        if (document) into.set(id, document);
      }
      return ids.some((id) => this.#goneInFlight.has(id));
    } finally {
      if (--this.#reads === 0) this.#goneInFlight.clear();
    }
  }

  /** What is asked for in one breath crosses together: a thousand calls of `get` open each page once. */
  #cross(ids: number[]): Crossing["rows"] {
    let crossing = this.#crossing;
    if (!crossing || crossing.ids.size + ids.length > READ_MAX) {
      const joined = new Set<number>();
      const rows = Promise.resolve().then(async () => {
        if (this.#crossing?.ids === joined) this.#crossing = undefined;
        const text = await this.#core.read(Uint32Array.from(joined));
        const list = JSON.parse(text) as ReadRow[];
        return { byId: new Map(list.map((row) => [row[0], row])), revive: needsReviving(text) };
      });
      crossing = this.#crossing = { ids: joined, rows };
    }
    for (const id of ids) crossing.ids.add(id);
    return crossing.rows;
  }

  #make(className: string, [id, , , data]: ReadRow, revive: boolean): object | undefined {
    try {
      const older = isOlder(this.#schema, className, data);
      const document = documentOf(this.#schema, className, revive ? reviveMap(data) : data);
      this.#byId.set(id, document);
      if (older) this.#migrated.add(id);
      this.#ids.set(document, id);
      return document;
    } catch (error) {
      this.#unreadable.add(id);
      this.#onError(error);
      return undefined;
    }
  }
}
