/** Queries by index, and the check of matches. */

import { raise, type EscaleError } from "../base/errors.js";
import { checkUnicode } from "../base/unicode.js";
import type { ClassDeclaration, DocumentOf, IndexName, MatchOf, OperandOf, OperatorOf } from "./schema-types.js";
import { isMap, type Raw } from "./raw.js";
import { checkKey } from "./writing.js";

/** The largest number of documents that a query with a limit lists. */
const LIMIT_MAX = 10_000;
/** The largest number of values of an `in`. */
const VALUES_MAX = 100;

/** The parts of a query. */
export interface QueryParts {
  readonly where: readonly (readonly [index: string, operator: string, operand: string | number | boolean | readonly string[]])[];
  readonly in?: string;
  readonly order?: readonly [index: string, descending: boolean];
  readonly limit?: number;
  readonly after?: readonly [value: unknown, key: readonly string[]];
}

/** A query as the core reads it. */
export function textOf({ where, in: def, order, limit, after }: QueryParts): string {
  return JSON.stringify([where, def ?? null, order ?? null, limit ?? null, after ?? null]);
}

/** Whether a query finds all documents that it is about. */
export interface QueryState {
  /**
   * Whether the subscriptions of the class are loaded, and none is refused. For a query within a match, that
   * subscription alone counts, and for any query that of the whole class, if there is one.
   */
  readonly ready: boolean;
  /** Why a subscription is refused. While there is such a reason, `ready` is false. */
  readonly error: EscaleError | undefined;
}

/** The part of a session that runs queries of one class. */
export interface QuerySource {
  readonly declared: ClassDeclaration;
  /** The def of a match. */
  def(match: unknown): string;
  docs(parts: QueryParts): Promise<readonly object[]>;
  count(parts: QueryParts): Promise<number>;
  state(parts: QueryParts): QueryState;
  live(parts: QueryParts, callback: (docs: readonly object[], state: QueryState) => unknown): () => void;
  liveCount(parts: QueryParts, callback: (count: number, state: QueryState) => unknown): () => void;
}

/**
 * A query over the documents of one class that the session holds. Each method that narrows or orders it makes a new
 * query.
 */
export class Query<D extends ClassDeclaration> {
  readonly #source: QuerySource;
  readonly #parts: QueryParts;
  /** The document behind which the query begins. */
  readonly #cursor: Raw | undefined;

  /** @internal */
  constructor(source: QuerySource, parts: QueryParts = { where: [] }, cursor?: Raw) {
    this.#source = source;
    this.#parts = parts;
    this.#cursor = cursor;
  }

  /**
   * Adds a condition: the documents must also compare so in this index. `startsWith` and `in` compare strings; `in`
   * takes a list of up to 100.
   */
  where<I extends IndexName<D>, O extends OperatorOf<D, I>>(
    index: I,
    operator: O,
    operand: OperandOf<D, I, O>,
  ): Query<D> {
    const predicate = checkPredicate(index, operator, operand);
    this.#checkIndex(index);
    return this.#with({ where: [...this.#parts.where, predicate] });
  }

  /** Lists only members of this match. The session must be subscribed to it, by `live` or `collection`. */
  in(match: MatchOf<D>): Query<D> {
    return this.#with({ in: this.#source.def(match) });
  }

  /**
   * Orders the documents by an index, or by `"key"`: strings by code points, documents of the same value by an order that
   * never changes. Documents without the indexed property are not listed. `"desc"` is exactly the reverse.
   */
  orderBy(index: IndexName<D> | "key", direction: "asc" | "desc" = "asc"): Query<D> {
    if (typeof index !== "string") throw raise("bad_option", "orderBy: the index must be a string");
    if (direction !== "asc" && direction !== "desc") throw raise("bad_option", 'orderBy: the direction is "asc" or "desc"');
    if (index !== "key") this.#checkIndex(index);
    return this.#with({ order: [index, direction === "desc"] });
  }

  /** Lists at most so many documents, from 1 to 10,000. Without `orderBy` they are the first ones by their keys. */
  limit(count: number): Query<D> {
    if (!Number.isInteger(count) || count < 1 || count > LIMIT_MAX) {
      throw raise("bad_option", `limit: must be an integer from 1 to ${LIMIT_MAX}`);
    }
    return this.#with({ limit: count });
  }

  /**
   * Lists the documents behind this one, in the query's order: the last document of a page gives the next page. The
   * document may have changed or left since. Without `orderBy` the order is that of the keys.
   */
  after(document: DocumentOf<D>): Query<D> {
    if (!isMap(document)) throw raise("bad_option", "after: must be a document of the query's class");
    return new Query<D>(this.#source, this.#parts, document);
  }

  /** The documents. Without an order they ascend by their keys, as JavaScript compares strings. */
  async docs(): Promise<readonly DocumentOf<D>[]> {
    return (await this.#source.docs(this.#asked())) as readonly DocumentOf<D>[];
  }

  /** The first document, or undefined. */
  async first(): Promise<DocumentOf<D> | undefined> {
    return (await this.limit(1).docs())[0];
  }

  /** The number of documents. None of them is read. */
  async count(): Promise<number> {
    return this.#source.count(this.#asked());
  }

  /** Whether `docs`, `first` and `count` find all documents now. */
  get state(): QueryState {
    return this.#source.state(this.#parts);
  }

  /**
   * Calls back with the documents, then again whenever they, their order or their state change: once for a burst of
   * changes. The function that it returns stops the callback.
   */
  live(callback: (docs: readonly DocumentOf<D>[], state: QueryState) => unknown): () => void {
    checkCallback("live", callback);
    return this.#source.live(this.#asked(), callback as (docs: readonly object[], state: QueryState) => unknown);
  }

  /** The same with the number of documents. None of them is read. */
  liveCount(callback: (count: number, state: QueryState) => unknown): () => void {
    checkCallback("liveCount", callback);
    return this.#source.liveCount(this.#asked(), callback);
  }

  #checkIndex(index: string): void {
    const { indexes = {} } = this.#source.declared;
    if (Object.hasOwn(indexes, index)) return;
    throw raise("unknown_index", `the class has no index ${index}; it has ${Object.keys(indexes).join(", ") || "none"}`);
  }

  #with(change: Partial<QueryParts>): Query<D> {
    return new Query<D>(this.#source, { ...this.#parts, ...change }, this.#cursor);
  }

  #asked(): QueryParts {
    const cursor = this.#cursor;
    if (!cursor) return this.#parts;
    const { key, indexes = {} } = this.#source.declared;
    const index = this.#parts.order?.[0] ?? "";
    const declared = Object.hasOwn(indexes, index) ? indexes[index] : undefined;
    const property = typeof declared === "object" ? (declared.property ?? index) : index;
    const value = declared === undefined ? null : (cursor[property] ?? null);
    return { ...this.#parts, after: [value, checkKey(key.map((name) => cursor[name]))] };
  }
}

/** Checks that a callback is one. */
export function checkCallback(method: string, callback: unknown): void {
  if (typeof callback !== "function") throw raise("bad_option", `${method}: the callback must be a function`);
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
    checkUnicode(match[name], `match: ${name}`, "bad_option");
  }
  return match;
}

/** Only the core knows the index's type, and checks the operand against it. */
function checkPredicate(index: unknown, operator: unknown, operand: unknown): QueryParts["where"][number] {
  if (typeof index !== "string" || typeof operator !== "string") {
    throw raise("bad_option", "where: the index and the operator are strings");
  }
  if (operator === "in") {
    const isList = Array.isArray(operand) && operand.length > 0 && operand.length <= VALUES_MAX;
    if (isList && operand.every((value) => typeof value === "string")) return [index, operator, operand.map((value) => checkUnicode(value, `where: ${index}`, "bad_option"))];
    throw raise("bad_option", `where: ${index} in: must be a list of 1 to ${VALUES_MAX} strings`);
  }
  if (typeof operand === "string") checkUnicode(operand, `where: ${index}`, "bad_option");
  if (typeof operand === "string" || typeof operand === "boolean" || Number.isFinite(operand)) {
    return [index, operator, operand as string | number | boolean];
  }
  throw raise("bad_option", `where: ${index} must be compared with a string, a finite number or a boolean`);
}
