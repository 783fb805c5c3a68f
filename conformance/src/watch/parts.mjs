// Promises that every part of a reply keeps. Most of them are among the mistakes that a session detects.
import { same } from "../forms/values.mjs";
import { SCHEMA, isNumbered, pkOf } from "../names.mjs";
import { list } from "./form.mjs";

const isPart = (part) => part && !part.fault;

/** The subscriptions that get a part: of a def that is named several times, the first one. */
function subsOf(request) {
  const named = new Set();
  return list(request.message?.subs).filter(([def]) => !named.has(def) && named.add(def));
}

/** The parts of a reply, each with its subscription: parts come in the order of `subs`. */
function answered({ request, reply }) {
  const parts = list(reply.parts);
  const subs = subsOf(request);
  const refs = request.message?.refs === true;
  return parts.map((part, i) => ({ part, i, refs, sub: subs[i] ?? [], place: `parts[${i}]` })).filter(({ part }) => isPart(part));
}

const each = (test) => (exchange) => answered(exchange).flatMap(test);

function descends(entries) {
  for (let i = 1; i < entries.length; i++) {
    const [[v, pk], [before, pkBefore]] = [entries[i], entries[i - 1]];
    if (v < before || (v === before && pk <= pkBefore)) return i;
  }
  return undefined;
}

function orderOf({ part, place }) {
  const rows = descends(list(part.rows).map(({ v, pk }) => [v, pk]));
  const left = descends(list(part.left).map(([pk, v]) => [v, pk]));
  return [
    ...(rows === undefined ? [] : [`${place}.rows[${rows}] does not come after the one before it`]),
    ...(left === undefined ? [] : [`${place}.left[${left}] does not come after the one before it`]),
  ];
}

function belowOf({ part, sub, place }) {
  const [, v = 0] = sub;
  const rows = list(part.rows).filter((row) => row.v < v).map(({ pk }) => `${place}.rows has ${pk} from below ${v}`);
  const left = list(part.left).filter((one) => one[1] < v).map(([pk]) => `${place}.left has ${pk} from below ${v}`);
  return [...rows, ...left];
}

function keysOf({ part, place }, org) {
  const className = String(part.def).split(/[/@]/)[0];
  if (!Object.hasOwn(SCHEMA, className) || org === "ROOT") return [];
  return list(part.rows).flatMap((row, i) => {
    if (row.deleted || !row.data) return [];
    const key = SCHEMA[className].key.map((property) => row.data[property]);
    if (key.some((value) => typeof value !== "string")) return [`${place}.rows[${i}].data lacks its key properties`];
    return pkOf(className, key) === row.pk ? [] : [`${place}.rows[${i}].pk is not the pk of ${JSON.stringify(key)}`];
  });
}

function dataOf({ part, place, refs }) {
  return list(part.rows).flatMap((row, i) => {
    if (row.deleted) return row.data === undefined ? [] : extrasOf(part, row, `${place}.rows[${i}]`);
    if (!row.data) return refs ? [] : [`${place}.rows[${i}] has no data`];
    const mistakes = same(row.maxLife ?? null, row.data.maxLife ?? null) ? [] : [`${place}.rows[${i}].maxLife is not that of data`];
    return Number.isSafeInteger(row.data.release) ? mistakes : [...mistakes, `${place}.rows[${i}].data has no release`];
  });
}

function extrasOf(part, row, place) {
  const key = SCHEMA[String(part.def).split(/[/@]/)[0]]?.key ?? [];
  const extra = Object.keys(row.data).filter((name) => !key.includes(name));
  return extra.length ? [`${place}.data of a deletion holds ${extra[0]}`] : [];
}

function presentOf({ part, sub, place }) {
  const isLast = part.next === undefined;
  if (part.present !== undefined && !isLast) return [`${place} has present and next`];
  if (!isLast || part.present !== undefined) return [];
  return sub[1] === 0 ? [`${place} is the end of a pull from 0, without present`] : [];
}

function livingOf({ part, place }) {
  if (!part.present) return [];
  const missing = list(part.rows).filter((row) => !row.deleted && !part.present.includes(row.pk));
  const deleted = list(part.rows).filter((row) => row.deleted && part.present.includes(row.pk));
  const double = part.present.filter((pk, i) => part.present.indexOf(pk) !== i);
  return [
    ...missing.map(({ pk }) => `${place}.present lacks ${pk}, which is in rows`),
    ...deleted.map(({ pk }) => `${place}.present has ${pk}, which is deleted`),
    ...double.map((pk) => `${place}.present has ${pk} twice`),
  ];
}

/** A part of items has a floor up to which it knows nothing, and begins there. */
function floorOf({ part, sub, place }) {
  const { def, floor } = part;
  if (floor === undefined) return [];
  const below = list(part.rows).filter(({ v }) => v < floor).map(({ pk }) => `${place}.rows has ${pk} from below the floor ${floor}`);
  return [
    ...(/\/in@/.test(def) ? [] : [`${place}.floor of ${def}`]),
    ...(floor === 0 || floor < sub[1] ? [`${place}.floor is ${floor}, and the asked v is ${sub[1]}`] : []),
    ...below,
  ];
}

const classOf = ({ def }) => String(def).split(/[/@]/)[0];

/** The number of a tree is exact: each row is above the asked number, and not above that of the part. */
function numbersOf({ part, sub: [, v = 0], place }) {
  if (!isNumbered(classOf(part))) return part.n === undefined ? [] : [`${place}.n of ${part.def}`];
  if (part.n === undefined) return [`${place}.n is missing`];
  const odd = list(part.rows).filter((row) => row.v <= v || row.v > part.n);
  return [
    ...odd.map((row) => `${place}.rows has ${row.pk} at ${row.v}, above ${v} and up to ${part.n}`),
    ...(part.floor > part.n ? [`${place}.floor is ${part.floor}, and n is ${part.n}`] : []),
  ];
}

export const partWatches = [
  {
    id: "watch.parts",
    at: "pull",
    says: "one for each def, in the order of `subs`. A def for which the reply had no room has none; the session asks for it again",
    hint: "Answer the subscriptions from the first one on, and stop once the reply is full.",
    test: ({ request, reply }) => {
      const subs = subsOf(request);
      const parts = list(reply.parts);
      if (parts.length > subs.length) return [`${parts.length} parts for ${subs.length} subscriptions`];
      if (subs.length && !parts.length) return ["no part at all"];
      return parts.flatMap((part, i) => (part.def === subs[i][0] ? [] : [`parts[${i}] is ${part.def}, and subs[${i}] is ${subs[i][0]}`]));
    },
  },
  {
    id: "watch.order",
    at: "rows-and-departures",
    says: "`rows` ascend by `v`, then by `pk`, and so do the entries of `left`.",
    hint: "Sort by (v, pk), and compare the bytes of the pk.",
    test: each(orderOf),
  },
  {
    id: "watch.asked-version",
    at: "pull",
    says: "documents that changed at or after the asked `v`, and deletions",
    hint: "A session refuses a row or a departure below the asked `v`.",
    test: each(belowOf),
  },
  {
    id: "watch.rows-or-left",
    at: "rows-and-departures",
    says: "A document is never in `rows` and `left` of one part.",
    hint: "Keep one state for each document of a collection: alive, deleted or left.",
    test: each(({ part, place }) => {
      const gone = new Set(list(part.left).map(([pk]) => pk));
      return list(part.rows).filter(({ pk }) => gone.has(pk)).map(({ pk }) => `${place} has ${pk} in rows and in left`);
    }),
  },
  {
    id: "watch.left-of-collections",
    at: "pull",
    says: "documents that left the collection at `v` and live on elsewhere. Never for `Class` and `Class@pk`",
    hint: "A document never leaves its class: it is deleted.",
    test: each(({ part, place }) => (part.left?.length && !part.def.includes("/") ? [`${place}.left of ${part.def}`] : [])),
  },
  {
    id: "watch.pk",
    at: "names",
    says: "`shaS` of the key properties joined by `/`, in the order of the schema.",
    hint: "See the table of hashes. The whole document is in `data`, its key properties included.",
    test: (exchange) => answered(exchange).flatMap((one) => keysOf(one, exchange.org)),
  },
  {
    id: "watch.data",
    at: "pull",
    says: "the whole document, its key properties included. In a deletion it holds the key properties, or is left out",
    hint: "`maxLife` of a row is that of its data. A document without `release` gets the class's.",
    test: each(dataOf),
  },
  {
    id: "watch.present",
    at: "pull",
    says: "every living member, if the asked `v` is 0 or before the horizon. With the last page only",
    hint: "Without `present` a session never learns that a document is gone.",
    test: each(presentOf),
  },
  {
    id: "watch.floor",
    at: "pull",
    says: "for the items of a parent: below this version none of them exists any more",
    hint: "Only `Class/in@<pk>` has it, and no row of such a part is below it.",
    test: (exchange) => {
      const found = answered(exchange);
      return found.some(({ part }) => part.floor !== undefined) ? found.flatMap(floorOf) : undefined;
    },
  },
  {
    id: "watch.number",
    at: "pull",
    says: "required for a class of the clock `sequence`: the number of the tree in the snapshot, on each page, see [Numbers](#numbers). No other class has it",
    hint: "The rows of such a part are above the asked number, and up to `n`.",
    test: (exchange) => {
      const found = answered(exchange);
      return found.some(({ part }) => part.n !== undefined || isNumbered(classOf(part))) ? found.flatMap(numbersOf) : undefined;
    },
  },
  {
    id: "watch.present-is-living",
    at: "the-horizon",
    says: "A pull from before the horizon ends with `present`: the pks of all living members, those in `rows` included.",
    hint: "Take `present` and `rows` from one snapshot.",
    test: each(livingOf),
  },
];
