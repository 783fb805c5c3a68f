// A schema that has changed: documents that were stored before enter new collections and indexes, and leave old ones.
import { linksOf } from "./schema.mjs";
import { keyOfValue, uniqueTable } from "./tables.mjs";
import { own, same } from "./values.mjs";

const STEP = 200;

/** The part of a class that decides where its documents are stored. */
export function shapeOf({ key, parent, isNumbered, collections, indexes }) {
  const kept = Object.entries(collections).map(([name, { key: of, list = false }]) => [name, { key: of, list }]);
  const unique = indexes.filter((index) => index.unique).map(({ property, global = false }) => ({ property, global }));
  return { key, parent: parent?.name ?? null, isNumbered, collections: Object.fromEntries(kept), unique };
}

/** Whether documents of a class have to be stored again. Throws if they cannot be. */
export function isOtherShape(name, before, now) {
  if (before === undefined || same(before, now)) return false;
  const fixed = ({ key, parent, isNumbered }) => [key, parent, isNumbered];
  if (!same(fixed(before), fixed(now))) throw new Error(`schema: ${name} has another key, parent or clock than its stored documents`);
  return true;
}

/** Stores some documents again, behind a place. Returns the next place, or nothing at the end. */
export function* fitSome(tx, org, cls, after) {
  const page = yield tx.page(org, cls.name, { after, limit: STEP });
  const changes = [];
  for (const [pk, row] of page) {
    if (row.state !== "alive") continue;
    const { links, data } = row.value;
    const now = fitting(cls, data) ?? links;
    const { v, at, state, ends } = row;
    for (const link of links) if (!now.includes(link)) changes.push([org, `${cls.name}/${link}`, pk, undefined]);
    for (const link of now) if (!links.includes(link)) changes.push([org, `${cls.name}/${link}`, pk, { v, at, state, ends }]);
    if (!same(links, now)) changes.push([org, cls.name, pk, { ...row, value: { links: now, data } }]);
    for (const { property, unique, global } of cls.indexes) {
      const value = own(data, property) ?? undefined;
      if (!unique || value === undefined || Array.isArray(value)) continue;
      changes.push([global ? "" : org, uniqueTable(cls, property), keyOfValue(value), { v, at, state, value: { org, pk } }]);
    }
  }
  // Of two documents with one value, either may hold it.
  yield tx.set([...new Map(changes.map((change) => [change.slice(0, 3).join("\n"), change])).values()]);
  return page.length < STEP ? undefined : [page.at(-1)[1].v, page.at(-1)[0]];
}

/** The collections of a document, or nothing if a property does not fit any more. */
function fitting(cls, data) {
  try {
    return linksOf(cls, data);
  } catch {
    return undefined;
  }
}
