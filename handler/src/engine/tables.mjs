// The tables of an org. A class has one under its name, and so has each of its collections' values, under its def. The
// others have names that no def has. A row is `{ v, at, state, ends?, value? }`: it is sorted by `v`, and never changed,
// only replaced.
import { shaS } from "./hash.mjs";

/** Rows of an org, not of a def. */
export const HEAD = "#head";
export const SESSIONS = "#sessions";
/** By account and id. `v` is the time of the result, or `NEVER` once only the id is kept. */
export const OPERATIONS = "#operations";
/** By account: how many sessions began without the right to write, and have their number kept. */
export const READERS = "#readers";
/** By class and pk of the parent. `v` is the time of the floor, until the items below it are gone. */
export const TREES = "#trees";
/** Rows that a purge may remove once the horizon is above `v`: by the table, a line feed and the key. */
export const GRAVES = "#graves";

/** Rows of no org: those of the org "". */
export const META = "#meta";
export const ORGS = "#orgs";

/** The holders of the values of a unique index; of the org "" if it is unique in all orgs. */
export const uniqueTable = (cls, property) => `#unique ${cls.name}.${property}`;

export const NEVER = Number.MAX_SAFE_INTEGER;
export const NO_TREE = { floor: 0, items: 0, n: 0, horizon: 0 };

/** A text as a key: without control characters, which databases refuse. */
export const keyOf = (text) => JSON.stringify(text).slice(1, -1);

/** The key of an operation: no other account and id have the same. */
export const keyOfOperation = (account, id) => keyOf(`${account.length} ${account} ${id}`);

/** The key of a value of a unique index. Its row names the document that shows whether it holds the value. */
export const keyOfValue = (value) => keyOf(`${value}`.length > 200 ? shaS(value) : `${value}`);

/** A stored document as a row of the wire. */
export const rowOf = (pk, { v, deleted, data }) => (deleted ? { pk, v, deleted } : { pk, v, maxLife: data.maxLife ?? undefined, data });

/** The row that a conflict names: also one of no document, which counts as deleted. */
export const conflictRow = (pk, found) => (found ? rowOf(pk, found) : { pk, v: 0, deleted: true });

/** A row of a document's table as a document; an item below the floor of its tree is deleted, at the floor. */
export function documentOf({ v, at, state, value }, floor) {
  return v < floor ? { ...value, v: floor, at, deleted: true } : { ...value, v, at, deleted: state !== "alive" };
}
