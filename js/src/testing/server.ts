/**
 * The server of a world: the engine of `escale-handler` on a storage in memory, for one org. It serves an adapter to each
 * session, and tells a test when a session has had its last change.
 */

import { Engine, Fault, memory, pkOf, run, shaS, textOfValue, type Class, type SyncReply } from "escale-handler/engine";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import { revive, type Raw } from "../schema/raw.js";
import type { Op, ServerOperation } from "./operations.js";

/** Every session is of one account. */
const CALLER = { account: "", mayWrite: true };

/** A request, in the JSON form of the protocol. */
export interface SyncRequest {
  readonly session: string;
  readonly epoch?: readonly [number, string];
  readonly ops?: readonly (Op & { id: string; seq: number; after?: string })[];
  readonly subs?: readonly (readonly [def: string, v: number, cursor?: string])[];
}

/** A reply: its text in the JSON form, and the defs whose answers are complete. */
export interface Answer {
  readonly text: string;
  readonly whole: readonly string[];
}

export interface ServerOptions {
  readonly org: string;
  readonly classes: SchemaDeclaration;
  readonly operations: { readonly [name: string]: ServerOperation | undefined };
  readonly clock: () => number;
  readonly pageRows: number;
}

export class Server {
  /** Called after each write, with the defs that it changed and their versions. */
  readonly listeners = new Set<(defs: ReadonlyMap<string, number>) => void>();
  /** Called with each new operation before it is executed. It may write, or throw the fault of the operation. */
  before: (op: Op) => void = () => {};
  /** The version of the last change, of any def. */
  highest = 0;
  /** How many changes there were. */
  changes = 0;
  /** By def: its last change, as a number of `changes`, and the version that it had. */
  readonly #last = new Map<string, { readonly at: number; readonly v: number }>();
  /** The defs to which sessions have no right any more. */
  readonly #withdrawn = new Set<string>();
  readonly #options: ServerOptions;
  readonly #engine: Engine;

  constructor(options: ServerOptions) {
    this.#options = options;
    const { classes, clock, pageRows: pageBytes } = options;
    const given = Object.entries(options.operations).filter(([, own]) => own !== undefined);
    const operations = Object.fromEntries(given) as Record<string, never>;
    const before = (op: Op): void => this.before(op);
    // A test may take its time in the debugger.
    const engine = new Engine({ storage: memory(), schema: classes, operations, before, clock, pageBytes, writeMs: Infinity });
    // Pages are counted in rows.
    engine.reader.weigh = () => 1;
    engine.reader.weighMembers = () => 0;
    engine.reader.refusal = (_caller, def) => (this.#withdrawn.has(def) ? new Fault("withdrawn", "S", "the test has ended the right") : undefined);
    engine.unknownOperation = (name) =>
      new Fault("unknown_operation", "A", `no operation is called ${name}: give its server part to testing({ operations })`);
    engine.failed = (name, error) => new Fault("internal", "B", `${name}: ${String(error)}`);
    engine.listeners.add((_org, defs, time) => this.#announce(defs, time));
    this.#engine = engine;
  }

  /** A write of the server itself, as of another user, with arguments in the JSON form. Its version, or throws its fault. */
  write({ name, args }: Op): number {
    return run(this.#engine.write(this.#options.org, name, revive(args))) as number;
  }

  /** The living documents of a class, ascending by pk. */
  documents(className: string): { pk: string; v: number; data: Raw }[] {
    return run(this.#engine.documents(this.#options.org, className)) as { pk: string; v: number; data: Raw }[];
  }

  /** Ends the right to a def. The function that it returns gives it back. */
  withdraw(className: string, match: object): () => void {
    const declared = this.#engine.classes.get(className);
    if (!declared) throw new Fault("unknown_class", "N", `the schema has no class ${className}`);
    const def = this.#defOf(declared, match);
    this.#withdrawn.add(def);
    // Sessions hear of it as of a change.
    const v = Math.max(this.#options.clock(), this.highest + 1);
    this.#announce(new Map([[def, v]]), v);
    return () => void this.#withdrawn.delete(def);
  }

  /** Answers a request. */
  sync({ session, epoch, ops = [], subs = [] }: SyncRequest): Answer {
    const revived = ops.map((op) => ({ ...op, args: revive(op.args) }));
    // A storage in memory answers at once.
    const reply = run(this.#engine.sync(this.#options.org, CALLER, { session, epoch, ops: revived, subs })) as SyncReply;
    return { text: textOfValue(reply), whole: reply.parts.filter(({ next }) => next === undefined).map(({ def }) => def) };
  }

  /** The last change of a def: 0 if there was none. */
  lastChange(def: string): { readonly at: number; readonly v: number } {
    return this.#last.get(def) ?? { at: 0, v: 0 };
  }

  #announce(defs: ReadonlyMap<string, number>, time: number): void {
    this.highest = Math.max(this.highest, time);
    this.changes += 1;
    for (const [def, v] of defs) this.#last.set(def, { at: this.changes, v });
    for (const listener of [...this.listeners]) listener(defs);
  }

  /** The def of a match, as sessions name it. */
  #defOf(declared: Class, match: object): string {
    const { name, collections } = declared;
    const names = Object.keys(match);
    if (names.length === 0) return name;
    if (names.length === 1 && "key" in match) return `${name}@${pkOf(this.#options.org, declared, match.key)}`;
    const isOf = (key: readonly string[]): boolean => key.length === names.length && key.every((property) => property in match);
    const found = Object.entries(collections).find(([, { key }]) => isOf(key));
    if (!found) throw new Fault("bad_key", "A", `no collection of ${name} has the properties ${names.join(", ")}`);
    return `${name}/${found[0]}@${shaS(found[1].key.map((property) => (match as Raw)[property]).join("/"))}`;
  }
}

