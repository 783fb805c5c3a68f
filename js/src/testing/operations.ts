/** The effect of each operation on the documents of the server in memory. */

import { encodeArgs, encodeChanges, encodeValueOf } from "./values.js";
import { isMap, revive, reviveMap, type Raw, type Value } from "../schema/values.js";
import { rowOf, type Stored, type Write } from "./database.js";
import { badKey, badValue, Fault } from "./fault.js";
import { numberedTreeOf, parentOf, pkOf, type Class } from "./links.js";

/** The documents of the server, as the server part of an operation of the application reads and writes them. */
export interface ServerDocuments {
  get(className: string, key: readonly string[]): { readonly [name: string]: Value } | undefined;
  put(className: string, data: object): void;
  patch(className: string, key: readonly string[], changes: object): void;
  delete(className: string, key: readonly string[]): void;
}

/** The server part of an operation of the application. It refuses by throwing {@link refusal}. */
export type ServerOperation = (documents: ServerDocuments, args: { readonly [name: string]: unknown }) => unknown;

/** An operation as it arrives. */
export interface Op {
  readonly name: string;
  readonly args: unknown;
}

/** Carries out operations of one org. */
export class Executor {
  readonly #org: string;
  readonly #classes: ReadonlyMap<string, Class>;
  readonly #own: { readonly [name: string]: ServerOperation };

  constructor(org: string, classes: ReadonlyMap<string, Class>, own: { readonly [name: string]: ServerOperation }) {
    this.#org = org;
    this.#classes = classes;
    this.#own = own;
  }

  /** Carries out an operation, and returns its value. Throws its fault. */
  execute(write: Write, { name, args }: Op): unknown {
    if (name === "batch") {
      this.#batch(write, args);
      return undefined;
    }
    const own = Object.hasOwn(this.#own, name) ? this.#own[name] : undefined;
    if (own) return this.#run(write, own, args);
    if (!["doc.put", "doc.patch", "doc.delete"].includes(name)) {
      throw new Fault("unknown_operation", "A", `no operation is called ${name}: give its server part to testing({ operations })`);
    }
    const declared = this.#classOf(args);
    const given = args as Raw;
    if (name === "doc.put") this.#put(write, declared, given);
    else if (name === "doc.patch") this.#patch(write, declared, given);
    else this.#delete(write, declared, given);
    return undefined;
  }

  #batch(write: Write, args: unknown): void {
    const ops = isMap(args) ? args["ops"] : undefined;
    if (!Array.isArray(ops)) throw badValue("ops is no list");
    if (ops.length > 500) throw new Fault("too_large", "A", "more than 500 operations");
    ops.forEach((op: unknown, at) => {
      try {
        if (!isMap(op) || typeof op["name"] !== "string" || !("args" in op)) throw badValue("an operation has a name and arguments");
        if (op["name"] === "batch") throw badValue("a batch in a batch");
        this.execute(write, { name: op["name"], args: op["args"] });
      } catch (fault) {
        if (!(fault instanceof Fault)) throw fault;
        throw new Fault(fault.code, fault.kind, `operation ${at} of the batch: ${fault.message}`, fault.doc);
      }
    });
  }

  #run(write: Write, own: ServerOperation, args: unknown): unknown {
    const find = (className: string, key: readonly string[]): [Class, string, Stored | undefined] => {
      const declared = this.#classOf({ class: className });
      const pk = pkOf(this.#org, declared, key);
      return [declared, pk, write.document(declared, pk)];
    };
    const documents: ServerDocuments = {
      get: (className, key) => {
        const [, , stored] = find(className, key);
        return stored && !stored.deleted ? (reviveMap(stored.data) as { [name: string]: Value }) : undefined;
      },
      put: (className, data) => this.execute(write, { name: "doc.put", args: { class: className, data: encodeArgs(data) } }),
      patch: (className, key, changes) =>
        this.execute(write, { name: "doc.patch", args: { class: className, key: [...key], ...encodeChanges(changes) } }),
      delete: (className, key) => this.execute(write, { name: "doc.delete", args: { class: className, key: [...key] } }),
    };
    const value = own(documents, (revive(args) ?? {}) as { [name: string]: unknown });
    if (value instanceof Promise) throw new Error("the server part of an operation must not be async: a write is one step");
    return value === undefined ? undefined : encodeValueOf(value);
  }

  #classOf(args: unknown): Class {
    if (!isMap(args)) throw badValue("the arguments are no map");
    const name = args["class"];
    if (typeof name !== "string") throw badValue("class is no text");
    const declared = this.#classes.get(name);
    if (!declared) throw new Fault("unknown_class", "N", "no such class");
    const expected = args["ifVersion"] ?? null;
    const isVersion = Number.isSafeInteger(expected) && (expected as number) >= 0;
    const isOperation = isMap(expected) && typeof expected["op"] === "string";
    if (expected !== null && !isVersion && !isOperation) throw badValue("ifVersion is no version");
    return declared;
  }

  #put(write: Write, declared: Class, { data, ifVersion }: Raw): void {
    if (!isMap(data)) throw badValue("data is no map");
    const pk = pkOf(this.#org, declared, declared.key.map((property) => data[property]));
    const old = write.document(declared, pk);
    if (old && !old.deleted && declared.key.some((property) => old.data[property] !== data[property])) {
      throw new Fault("key_mismatch", "A", "a document of the same pk has another key");
    }
    expect(write, old, pk, ifVersion, numberedTreeOf(declared, pk, data));
    const parent = parentOf(declared, data);
    if (parent !== undefined) {
      const held = write.db.documents.get(String(declared.in))?.get(parent);
      if (!held || held.deleted) throw new Fault("not_found", "N", `no ${String(declared.in)} holds this item`);
    }
    write.put(declared, pk, data);
  }

  #patch(write: Write, declared: Class, { key, set, unset = [], ifVersion }: Raw): void {
    if (!isMap(set)) throw badValue("set is no map");
    if (!Array.isArray(unset) || unset.some((name) => typeof name !== "string")) throw badValue("unset is no list of names");
    const pk = pkOf(this.#org, declared, key);
    declared.key.forEach((property, at) => {
      const isMoved = Object.hasOwn(set, property) && set[property] !== (key as unknown[])[at];
      if (unset.includes(property) || isMoved) throw new Fault("key_mismatch", "A", "a patch cannot change the key");
    });
    const old = write.document(declared, pk);
    expect(write, old, pk, ifVersion, old && numberedTreeOf(declared, pk, old.data));
    if (!old || old.deleted) throw new Fault("not_found", "N", "no such document");
    const kept = Object.entries(old.data).filter(([name]) => !unset.includes(name));
    write.put(declared, pk, { ...Object.fromEntries(kept), ...set });
  }

  #delete(write: Write, declared: Class, { key, ifVersion }: Raw): void {
    if (!Array.isArray(key)) throw badKey("a key is a list");
    const pk = pkOf(this.#org, declared, key);
    const old = write.document(declared, pk);
    expect(write, old, pk, ifVersion, old && numberedTreeOf(declared, pk, old.data));
    if (!old || old.deleted) throw new Fault("not_found", "N", "no such document");
    write.delete(declared, pk, old);
    // Items end with their parent.
    for (const items of this.#classes.values()) {
      if (items.in !== declared.name) continue;
      for (const [item, stored] of write.db.documents.get(items.name) ?? []) {
        if (!stored.deleted && parentOf(items, stored.data) === pk) write.delete(items, item, stored);
      }
    }
  }
}

/** Checks `ifVersion` against the stored document, in its tree on the clock `sequence`. */
function expect({ db }: Write, old: Stored | undefined, pk: string, ifVersion: unknown, tree?: string): void {
  if (ifVersion === undefined || ifVersion === null) return;
  const isGone = !old || old.deleted;
  let holds = ifVersion === 0 ? isGone : old?.v === ifVersion;
  if (isMap(ifVersion)) {
    const earlier = db.operations.get(String(ifVersion["op"]));
    if (!earlier || earlier.result.fault) throw new Fault("order_held", "C", "the earlier operation was refused, or is not known");
    const given = tree === undefined ? earlier.v : (earlier.numbers.get(tree) ?? -1);
    holds = (old !== undefined && old.v <= given) || (given === 0 && isGone);
  }
  if (holds) return;
  throw new Fault("version_conflict", "A", "the document has another version", old ? rowOf(pk, old) : { pk, v: 0, deleted: true });
}
