import type { ClassDeclaration, DocumentOf, IndexName, OperandOf, OperatorOf } from "./schema-types.js";

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
    return new Query<D>(this.#run, [...this.#predicates, [index, operator, operand]]);
  }

  /** The documents that satisfy all of it, in the order of their keys. */
  async docs(): Promise<readonly DocumentOf<D>[]> {
    return (await this.#run(JSON.stringify(this.#predicates))) as readonly DocumentOf<D>[];
  }
}
