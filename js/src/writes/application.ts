/**
 * The application's own functions, as the core calls them: the optimistic parts of its operations, and its conflict
 * resolvers. Documents cross as JSON text. Nothing here keeps a document.
 */

import type { KnownDocument } from "../wasm/core.js";
import { raise } from "../base/errors.js";
import { documentOf } from "../schema/migrate.js";
import type { OperationDeclaration, Settle, Transaction } from "./operation-types.js";
import { report } from "../base/report.js";
import type { Schema } from "../schema/schema.js";
import type { ClassDeclaration, SchemaDeclaration } from "../schema/schema-types.js";
import { runOptimistic } from "./transaction.js";
import { freezeDeep, isMap, reviveMap, type Raw } from "../schema/raw.js";
import { classOf, encodeDocument } from "../schema/writing.js";

type AnyOperations = Readonly<Record<string, OperationDeclaration<SchemaDeclaration>>>;
type AnyConflicts = Readonly<Record<string, string | Settle<ClassDeclaration> | undefined>>;

/** Calls the application's functions for the core: optimistic parts and custom conflict resolvers. */
export class Application {
  readonly #schema: Schema;
  readonly #operations: AnyOperations;
  readonly #conflicts: AnyConflicts;
  /**
   * Operations whose optimistic part has thrown. Each is reported once only, because a part runs again at every change.
   */
  readonly #reported = new Set<string>();

  constructor(schema: Schema, operations: AnyOperations = {}, conflicts: AnyConflicts = {}) {
    this.#schema = schema;
    this.#operations = operations;
    this.#conflicts = conflicts;
  }

  /**
   * Runs the optimistic part of an operation and gives its changes as JSON; undefined if the operation has no such
   * part.
   */
  optimistic(name: string, args: string, known: string): string | undefined {
    const declared = Object.hasOwn(this.#operations, name) ? this.#operations[name] : undefined;
    const part = declared?.optimistic;
    if (!part) return undefined;
    const given = freezeDeep(reviveMap(JSON.parse(args) as Raw));
    const documents = JSON.parse(known) as KnownDocument[];
    try {
      return JSON.stringify(runOptimistic(this.#schema, documents, (tx) => this.#call(name, part, tx, given)));
    } catch (error) {
      if (!this.#reported.has(name)) {
        this.#reported.add(name);
        report(error);
      }
      throw error;
    }
  }

  /** Gives the document that resolves a conflict, as JSON; undefined to leave the server's document. */
  settle(className: string, base: string, mine: string, theirs: string): string | undefined {
    const settle = this.#conflicts[className];
    if (typeof settle !== "function") return undefined;
    try {
      const read = (text: string): never => this.#read(className, text) as never;
      const settled: unknown = settle(read(base), read(mine), read(theirs));
      if (settled instanceof Promise) throw raise("bad_option", `conflicts: ${className}: must not be async`);
      if (settled === undefined) return undefined;
      return JSON.stringify(settled === null ? null : encodeDocument(this.#schema, className, settled));
    } catch (error) {
      report(error);
      throw error;
    }
  }

  #call(
    name: string,
    part: (tx: Transaction<SchemaDeclaration>, args: unknown) => unknown,
    tx: Transaction<SchemaDeclaration>,
    args: Raw,
  ): void {
    const result = part(tx, args);
    if (result instanceof Promise) throw raise("bad_option", `operations: ${name}: optimistic must not be async`);
  }

  #read(className: string, text: string): Raw | null {
    const state = JSON.parse(text) as unknown;
    return isMap(state) ? documentOf(this.#schema, className, reviveMap(state)) : null;
  }
}

/** Tells whether the session resolves conflicts of a class itself. `policies` is the JSON of {@link policiesOf}. */
export function resolvesBy(policies: string): (className: string) => boolean {
  const byClass = JSON.parse(policies) as Record<string, string>;
  return (className) => Object.hasOwn(byClass, className) && byClass[className] !== "overwrite";
}

const POLICIES = ["overwrite", "ask", "server", "client", "merge"];

/** Checks the policies of the application and gives them as JSON for the core. */
export function policiesOf(schema: Schema, conflicts: unknown): string {
  if (conflicts === undefined) return "{}";
  if (!isMap(conflicts)) throw raise("bad_option", "conflicts: must be an object of policies by class");
  const policies: Record<string, string> = {};
  for (const [className, policy] of Object.entries(conflicts)) {
    if (policy === undefined) continue;
    classOf(schema, className);
    if (typeof policy === "function") policies[className] = "custom";
    else if (POLICIES.includes(policy as string)) policies[className] = policy as string;
    else throw raise("bad_option", `conflicts: ${className}: must be ${POLICIES.join(", ")} or a function`);
  }
  return JSON.stringify(policies);
}
