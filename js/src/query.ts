import { raise } from "./errors.js";
import type { ClassDeclaration, DocumentOf, IndexName, OperandOf, OperatorOf } from "./schema-types.js";
import { isMap, type Raw } from "./values.js";
import { checkKey } from "./writing.js";

type Predicate = readonly [index: string, operator: string, operand: string | number];

/** A question to the documents that the session holds of one class. Each `where` makes another one. */
export class Query<D extends ClassDeclaration> {
  readonly #run: (predicates: string) => Promise<readonly object[]>;
  readonly #predicates: readonly Predicate[];

  /** @internal */
  constructor(run: (predicates: string) => Promise<readonly object[]>, predicates: readonly Predicate[] = []) {
    this.#run = run;
    this.#predicates = predicates;
  }

  /** The documents whose index compares so, besides what was asked before. */
  where<I extends IndexName<D>>(index: I, operator: OperatorOf<D, I>, operand: OperandOf<D, I>): Query<D> {
    const predicate = checkPredicate(index, operator, operand);
    return new Query<D>(this.#run, [...this.#predicates, predicate]);
  }

  /** The documents that satisfy all of it, in the order of their keys. */
  async docs(): Promise<readonly DocumentOf<D>[]> {
    return (await this.#run(JSON.stringify(this.#predicates))) as readonly DocumentOf<D>[];
  }
}

/** A match as it is sent. What JSON would leave out or change must not widen or move a subscription. */
export function checkMatch(match: unknown): Raw {
  if (!isMap(match)) throw raise("bad_option", "match: must be {}, { key: [..] } or the properties of a collection");
  const names = Object.keys(match);
  if (names.length === 1 && Array.isArray(match["key"])) return { key: checkKey(match["key"]) };
  for (const name of names) {
    if (typeof match[name] !== "string") throw raise("bad_option", `match: ${name} must be a string`);
  }
  return match;
}

/** What an index compares with is told by its type, which the core knows. */
function checkPredicate(index: unknown, operator: unknown, operand: unknown): Predicate {
  if (typeof index !== "string" || typeof operator !== "string") {
    throw raise("bad_option", "where: the index and the operator are strings");
  }
  if (typeof operand === "string" || Number.isFinite(operand)) return [index, operator, operand as string | number];
  throw raise("bad_option", `where: ${index} must be compared with a string or a finite number`);
}
