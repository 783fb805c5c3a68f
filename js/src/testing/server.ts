/**
 * A server of the protocol in memory, for one org: it serves an adapter to each session.
 *
 * Invariant: a request is served without interruption, so no write happens between its `now` and its snapshot.
 */

import type { ClassDeclaration, SchemaDeclaration } from "../schema/schema-types.js";
import { Database, rowOf, Write, type Known, type Member, type Stored } from "./database.js";
import { ascending, Fault, isUnexecuted } from "./fault.js";
import { defOf, ITEMS, pkOf, valueOf, type Class } from "./links.js";
import { Executor, type Op, type ServerOperation } from "./operations.js";

const DELTA_MS = 2_000;
const DEF = /^([A-Za-z]\w*)(?:\/([A-Za-z]\w*))?(?:@([-\w.:]{1,1024}))?$/;

/** A request, in the JSON form of the protocol. */
export interface SyncRequest {
  readonly session: string;
  readonly epoch?: readonly [number, string];
  readonly ops?: readonly (Op & { id: string; seq: number; after?: string })[];
  readonly subs?: readonly (readonly [def: string, v: number, cursor?: string])[];
}

/** One part of a reply. */
export interface Part {
  readonly def: string;
  readonly next?: string;
  readonly fault?: Fault;
}

/** A reply, in the JSON form of the protocol. */
export interface SyncReply {
  readonly now: number;
  readonly results: Known["result"][];
  readonly parts: Part[];
}

/** A document of a def, or one that left it. */
type Change = { pk: string; v: number; state: Member["state"] } & Partial<Stored>;

export interface ServerOptions {
  readonly org: string;
  readonly classes: SchemaDeclaration;
  readonly operations: { readonly [name: string]: ServerOperation };
  readonly clock: () => number;
  readonly pageRows: number;
}

export class Server {
  readonly db = new Database();
  readonly classes: ReadonlyMap<string, Class>;
  /** Called after each write, with the defs that it changed and its version. */
  readonly listeners = new Set<(defs: ReadonlySet<string>, v: number) => void>();
  /** Called with each new operation before it is executed. It may write, or throw the fault of the operation. */
  before: (op: Op) => void = () => {};
  /** The defs to which sessions have no right any more. */
  readonly #withdrawn = new Set<string>();
  readonly #options: ServerOptions;
  readonly #executor: Executor;
  readonly #epoch: readonly [number, string];
  /** By cursor: the answer, and the `now` of its first page, or its number. */
  readonly #cursors = new Map<string, { readonly of: string; readonly now: number; readonly after: Change; readonly total: number }>();

  constructor(options: ServerOptions) {
    this.#options = options;
    const withName = (name: string, declared: ClassDeclaration): Class => {
      const parent = declared.in === undefined ? undefined : options.classes[declared.in];
      const isNumbered = (parent ?? declared).clock === "sequence";
      const isParent = isNumbered ? !parent : Object.values(options.classes).some((other) => other.in === name);
      return { ...declared, name, isParent, isNumbered, ...(parent && { parentKeys: parent.key.length }) };
    };
    const known = Object.entries(options.classes).filter(([, declared]) => !declared.local);
    this.classes = new Map(known.map(([name, declared]) => [name, withName(name, declared)]));
    this.#executor = new Executor(options.org, this.classes, options.operations);
    this.#epoch = [options.clock(), "testing"];
  }

  /** A write of the server itself, as of another user. Returns its version, or throws its fault. */
  write(op: Op): number {
    const write = new Write(this.db, this.#options.clock());
    try {
      this.#executor.execute(write, op);
    } catch (error) {
      write.rollBack();
      throw error;
    }
    this.#commit(write);
    return write.given;
  }

  /** The living documents of a class, ascending by pk. */
  documents(className: string): { pk: string; v: number; data: Stored["data"] }[] {
    const rows = [...(this.db.documents.get(className) ?? [])].map(([pk, stored]) => ({ ...stored, pk }));
    return rows.filter((row) => !row.deleted && !this.#isEnded(row, this.#now())).sort((a, b) => (a.pk < b.pk ? -1 : 1));
  }

  /** Ends the right to a def. The function that it returns gives it back. */
  withdraw(className: string, match: object): () => void {
    const declared = this.classes.get(className);
    if (!declared) throw new Fault("unknown_class", "N", `the schema has no class ${className}`);
    const def = defOf(this.#options.org, declared, match);
    this.#withdrawn.add(def);
    // Sessions hear of it as of a change.
    this.#announce(new Set([def]), Math.max(this.#now(), this.db.highest + 1));
    return () => void this.#withdrawn.delete(def);
  }

  /** Answers a request. */
  sync(request: SyncRequest): SyncReply & object {
    const { session, ops = [], subs = [], epoch } = request;
    const results: Known["result"][] = [];
    let unexecuted: Fault | undefined;
    for (const op of ops) {
      const isOther = epoch && (epoch[0] !== this.#epoch[0] || epoch[1] !== this.#epoch[1]);
      const outcome = isOther ? new Fault("contention", "C", "another epoch") : this.#operate(session, op);
      if (outcome instanceof Fault) {
        unexecuted = outcome;
        break;
      }
      results.push(outcome);
    }
    const now = (this.db.told = this.#now());
    if (unexecuted) this.#complete(ops, results, unexecuted);
    const room = { rows: this.#options.pageRows };
    const parts: Part[] = [];
    for (const group of this.#neighbours(subs)) {
      const before = parts.length;
      for (const sub of group) if (room.rows > 0) parts.push(this.#answer(sub, now, room));
      const isWhole = parts.length - before === group.length && parts.slice(before).every(({ next }) => next === undefined);
      if (isWhole) continue;
      // A tree comes whole, or not at all if others came first: the session then asks for it first.
      if (group.length > 1 && before > 0) parts.length = before;
      break;
    }
    const seq = this.db.sessions.get(session) ?? 0;
    return { p: 1, epoch: this.#epoch, now, delta: DELTA_MS, seq, results, parts } as SyncReply & object;
  }

  /** The defs in the order of the request, those of one tree together. */
  #neighbours<T extends readonly [def: string, ...rest: unknown[]]>(subs: readonly T[]): T[][] {
    const groups: T[][] = [];
    let last: string | undefined;
    for (const sub of subs) {
      const tree = this.#treeOf(sub[0]);
      if (tree !== undefined && tree === last) groups.at(-1)?.push(sub);
      else groups.push([sub]);
      last = tree;
    }
    return groups;
  }

  /** The tree of a def of a parent, or of all its items. */
  #treeOf(def: string): string | undefined {
    const [, name = "", collection, hash] = DEF.exec(def) ?? [];
    const declared = this.classes.get(name);
    if (hash === undefined || !declared) return undefined;
    if (collection === ITEMS && declared.in !== undefined) return `${declared.in}@${hash}`;
    return collection === undefined && declared.in === undefined ? def : undefined;
  }

  /** The tree of a def on the clock `sequence`. */
  #numbersOf(def: string): string | undefined {
    return this.classes.get(DEF.exec(def)?.[1] ?? "")?.isNumbered ? this.#treeOf(def) : undefined;
  }

  #now(): number {
    return Math.max(this.#options.clock(), this.db.told, this.db.highest);
  }

  /** Executes an operation once. Returns its result, or the fault that left it unexecuted. */
  #operate(session: string, op: Op & { id: string; seq: number; after?: string }): Known["result"] | Fault {
    const { operations, sessions } = this.db;
    const last = sessions.get(session) ?? 0;
    const known = operations.get(op.id);
    if (known) {
      if (known.name !== op.name) return new Fault("bad_value", "A", "the id has another name");
      if (op.seq === last + 1) sessions.set(session, op.seq);
      return known.result;
    }
    if (op.seq > last + 1) return new Fault("order_gap", "C", "operations before it are missing");
    if (op.seq <= last) return new Fault("session_reused", "A", "the number is another operation's");
    const earlier = op.after === undefined ? undefined : operations.get(op.after);
    if (op.after !== undefined && (!earlier || earlier.result.fault)) return new Fault("order_held", "C", "it waits for another one");
    let result: Known["result"];
    let write: Write | undefined;
    try {
      this.before(op);
      write = new Write(this.db, this.#options.clock());
      const value = this.#executor.execute(write, op);
      const trees = [...write.numbers].map(([tree, n]) => [...tree.split("@"), n]);
      result = { id: op.id, ok: { v: write.given, ...(value !== undefined && { value }), ...(trees.length > 0 && { trees }) } };
    } catch (error) {
      write?.rollBack();
      const fault = error instanceof Fault ? error : new Fault("internal", "B", `${op.name}: ${String(error)}`);
      if (isUnexecuted(fault)) return fault;
      result = { id: op.id, fault };
    }
    operations.set(op.id, { name: op.name, v: write?.given ?? 0, numbers: write?.numbers ?? new Map(), result });
    sessions.set(session, op.seq);
    if (write) this.#commit(write);
    return result;
  }

  /** Adds the results of operations that are known, behind the one that was not executed, and its fault once. */
  #complete(ops: NonNullable<SyncRequest["ops"]>, results: Known["result"][], fault: Fault): void {
    const [first, ...others] = ops.slice(results.length);
    if (!first) return;
    results.push({ id: first.id, fault });
    for (const { id, name } of others) {
      const known = this.db.operations.get(id);
      if (known?.name === name) results.push(known.result);
    }
  }

  #commit({ changed, now }: Write): void {
    if (changed.size > 0) this.#announce(changed, now);
  }

  /** These defs have changed at that version. */
  #announce(changed: ReadonlySet<string>, v: number): void {
    this.db.highest = v;
    for (const def of changed) this.db.changes.set(def, v);
    for (const listener of [...this.listeners]) listener(changed, v);
  }

  #isEnded({ data }: { data?: Stored["data"] }, now: number): boolean {
    const end = data && valueOf(data, "maxLife");
    return typeof end === "number" && end * 60_000 <= now;
  }

  /** The changes of a def, ascending, or nothing if there is no such def. */
  #changes(def: string): Change[] | undefined {
    const [, name = "", collection, hash] = DEF.exec(def) ?? [];
    const declared = this.classes.get(name);
    if (!declared || declared.sync === false) return undefined;
    const isItem = declared.in !== undefined;
    // Items are subscribed to by their parent, or one by one.
    if ((isItem || declared.isNumbered) && hash === undefined) return undefined;
    if (isItem && declared.isNumbered && collection === undefined) return undefined;
    const isCollection = isItem ? collection === ITEMS : Object.hasOwn(declared.collections ?? {}, collection ?? "");
    if (collection !== undefined && !(hash && isCollection)) return undefined;
    const documents = this.db.documents.get(name) ?? new Map<string, Stored>();
    if (collection !== undefined) {
      const members = [...(this.db.members.get(def) ?? [])];
      return members.map(([pk, { v, state }]) => ({ ...(state === "alive" && documents.get(pk)), pk, v, state })).sort(ascending);
    }
    const all = [...documents].filter(([pk]) => hash === undefined || pk === hash);
    return all.map(([pk, stored]): Change => ({ ...stored, pk, state: stored.deleted ? "deleted" : "alive" })).sort(ascending);
  }

  #answer([def, v, cursor]: readonly [string, number, string?], now: number, room: { rows: number }): Part {
    if (this.#withdrawn.has(def)) return { def, fault: new Fault("withdrawn", "S", "the test has ended the right") };
    const changes = this.#changes(def);
    const isLocal = this.#options.classes[DEF.exec(def)?.[1] ?? ""]?.local;
    if (!changes) return { def, fault: new Fault(isLocal ? "unknown_class" : "unknown_def", "N", "no such class or collection") };
    const at = cursor === undefined ? undefined : this.#cursors.get(cursor);
    if (cursor !== undefined && at?.of !== `${def} ${v}`) return { def, fault: new Fault("bad_cursor", "N", "no cursor of this answer") };
    const isAlive = (change: Change): boolean => change.state === "alive" && !this.#isEnded(change, now);
    const tree = this.#numbersOf(def);
    const n = tree === undefined ? undefined : (this.db.numbers.get(tree) ?? 0);
    // A number is exact: the session knows all up to it.
    const since = n === undefined ? v : v + 1;
    const first = at?.now ?? n ?? now;
    // A pull from 0 needs no departures, except those that may have happened between its pages.
    const goneFrom = v > 0 ? since : n === undefined ? first - DELTA_MS : first + 1;
    const listed = changes.filter((change) => change.v >= (isAlive(change) ? since : Math.max(since, goneFrom)));
    const total = at?.total ?? listed.filter(({ state }) => state !== "left").length;
    const open = listed.filter((change) => !at || ascending(change, at.after) > 0);
    const page = open.slice(0, room.rows);
    room.rows -= page.length;
    const rows = page.filter(({ state }) => state !== "left").map((change) => {
      return isAlive(change) ? rowOf(change.pk, change as Stored) : { pk: change.pk, v: change.v, deleted: true };
    });
    const left = page.filter(({ state }) => state === "left").map((change) => [change.pk, change.v]);
    const part = { def, rows, left, total, ...(n !== undefined && { n }) };
    const after = page.at(-1);
    if (page.length < open.length && after) {
      const next = `${this.#cursors.size + 1}`;
      this.#cursors.set(next, { of: `${def} ${v}`, now: first, after, total });
      return { ...part, next };
    }
    return v === 0 ? ({ ...part, present: changes.filter(isAlive).map(({ pk }) => pk) } as Part) : part;
  }

  /** The row of a document; for tests that look at versions. */
  version(className: string, key: readonly string[]): number {
    const declared = this.classes.get(className);
    const stored = declared && this.db.documents.get(className)?.get(pkOf(this.#options.org, declared, key));
    return stored && !stored.deleted ? stored.v : 0;
  }
}
