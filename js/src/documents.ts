import type { Core, ReadRow } from "./core.js";
import { documentOf, isOlder } from "./migrate.js";
import type { Schema } from "./schema.js";
import type { ClassDeclaration } from "./schema-types.js";
import { freezeDeep, needsReviving, reviveMap, type Raw } from "./values.js";
import { joinedKey } from "./writing.js";

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
  /** Ids by document, for those that somebody asked of; the others wait. */
  #ids = new WeakMap<object, number>();
  #unnamed: number[] = [];
  /** What the core would find by a key, as long as nothing changes: by class, then by the joined key. */
  readonly #byKey = new Map<string, Map<string, object>>();
  /** Counts the times that this was forgotten. */
  #turn = 0;
  /** Ids whose data no migration could bring up: not read again, told once. */
  readonly #unreadable = new Set<number>();
  /** Ids that went out of use while a read was in flight; its rows for them must not be kept. */
  readonly #goneInFlight = new Set<number>();
  /** Ids whose data rests in an older release than what was handed out. */
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
    for (const id of this.#unnamed) {
      const made = this.#byId.get(id);
      if (made) this.#ids.set(made, id);
    }
    this.#unnamed = [];
    return this.#ids.get(document);
  }

  /** The document of a key, where it is known without asking the core. */
  at(className: string, key: readonly string[]): object | undefined {
    if (key.length !== this.#schema.classes[className]?.key.length) return undefined;
    return this.#byKey.get(className)?.get(joinedKey(key));
  }

  /** The core has just found this document by its key. */
  found(className: string, document: object): void {
    const declared = this.#schema.classes[className];
    if (declared) this.#note(this.#keyed(className), declared, document);
  }

  /** Something changed, or will: what the core would find is not known any more. */
  forgetKeys(): void {
    this.#turn++;
    this.#byKey.clear();
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
    this.forgetKeys();
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
    this.#unnamed = [];
  }

  /** The session is over: everything is forgotten, and what still crosses is not kept. */
  end(): void {
    this.#isOver = true;
    this.clear();
  }

  /** Forgets everything. */
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
      // Another version may stand over this one by now.
      const keyed = turn === this.#turn && !this.#isOver ? this.#keyed(className) : undefined;
      for (const id of ids) {
        const row = byId.get(id);
        if (!row || this.#goneInFlight.has(id)) continue;
        // Two reads can cross; the first to arrive made the object.
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

  /** What is asked for in one breath crosses together: a thousand calls of `get` open each page once. */
  #cross(ids: number[]): Crossing["rows"] {
    let crossing = this.#crossing;
    if (!crossing || crossing.ids.size + ids.length > READ_MAX) {
      const joined = new Set<number>();
      const rows = Promise.resolve().then(async () => {
        if (this.#crossing?.ids === joined) this.#crossing = undefined;
        const text = await this.#core.read(Uint32Array.from(joined));
        const list = JSON.parse(text) as ReadRow[];
        const byId = new Map<number, ReadRow>();
        for (const row of list) byId.set(row[0], row);
        return { byId, revive: needsReviving(text) };
      });
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
      // Of the class's own release it is the document as it is: nothing is copied.
      const document =
        release === undefined ? freezeDeep(data) : documentOf(this.#schema, className, { ...data, release });
      if (this.#isOver) return document;
      this.#byId.set(id, document);
      if (release !== undefined && isOlder(this.#schema, className, release)) this.#migrated.add(id);
      this.#unnamed.push(id);
      return document;
    } catch (error) {
      this.#unreadable.add(id);
      this.#onError(error);
      return undefined;
    }
  }
}
