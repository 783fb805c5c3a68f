/** Queries by index, and the check of matches. */

import { raise } from "../base/errors.js";
import type { ClassDeclaration, DocumentOf, IndexName, OperandOf, OperatorOf } from "./schema-types.js";
import { isMap, type Raw } from "./values.js";
import { checkKey } from "./writing.js";

type Predicate = readonly [index: string, operator: string, operand: string | number];

/** A query over the documents of one class that the session holds. Each `where` makes a new query. */
export class Query<D extends ClassDeclaration> {
  readonly #run: (predicates: string) => Promise<readonly object[]>;
  readonly #predicates: readonly Predicate[];

  /** @internal */
  constructor(run: (predicates: string) => Promise<readonly object[]>, predicates: readonly Predicate[] = []) {
    this.#run = run;
    this.#predicates = predicates;
  }

  /** Adds a condition: the documents must also compare so in this index. */
  where<I extends IndexName<D>>(index: I, operator: OperatorOf<D, I>, operand: OperandOf<D, I>): Query<D> {
    const predicate = checkPredicate(index, operator, operand);
    return new Query<D>(this.#run, [...this.#predicates, predicate]);
  }

  /** The documents that satisfy all conditions, in the order of their keys. */
  async docs(): Promise<readonly DocumentOf<D>[]> {
    return (await this.#run(JSON.stringify(this.#predicates))) as readonly DocumentOf<D>[];
  }
}

/**
 * Checks a match and gives it as it is sent. JSON would drop or change some values, which could widen or move a
 * subscription: they are refused.
 */
export function checkMatch(match: unknown): Raw {
  if (!isMap(match)) throw raise("bad_option", "match: must be {}, { key: [..] } or the properties of a collection");
  const names = Object.keys(match);
  if (names.length === 1 && Array.isArray(match["key"])) return { key: checkKey(match["key"]) };
  for (const name of names) {
    if (typeof match[name] !== "string") throw raise("bad_option", `match: ${name} must be a string`);
  }
  return match;
}

/** Only the core knows the index's type, and checks the operand against it. */
function checkPredicate(index: unknown, operator: unknown, operand: unknown): Predicate {
  if (typeof index !== "string" || typeof operator !== "string") {
    throw raise("bad_option", "where: the index and the operator are strings");
  }
  if (typeof operand === "string" || Number.isFinite(operand)) return [index, operator, operand as string | number];
  throw raise("bad_option", `where: ${index} must be compared with a string or a finite number`);
}
