// The documents, the same for every system and every run. Generated ones have about 1 KB of prose each: in sections, in a
// hundred lists, in groups for queries, or all in one note. The others are Debian's packages.

const WORDS = (
  "the of and to in is for with that on by this data map key value node part row page line text time user order field " +
  "number state place world water light house river mountain engine letter signal garden window market bridge forest " +
  "history science language village winter summer morning evening question answer journey harbour station measure"
).split(" ");

/** A generator of random numbers from a seed, from 0 up to but excluding 1. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The number of documents in one section of the generated documents: a collection lists one section. */
const SECTION_SIZE = 100;

/** The packages, if they are measured. */
let packages;

/**
 * The property that a collection lists by: `section`, `lists` if each document is in one to three lists, `group` if
 * queries are measured, or `note` if items are.
 */
export let listedBy = "section";

/** The number of groups: with 10,000 documents each group has 161 or 162, with 50,000 it has 806 or 807. */
export const GROUPS = 62;

/** The number of lists. */
const LISTS = 100;

/** Measures documents that are in one to three of a hundred lists. */
export function useLists() {
  listedBy = "lists";
}

/** Measures queries: each document is in one group, and the property `n` has an index. */
export function useQueries() {
  listedBy = "group";
}

/** The document that all items belong to. */
export const NOTE = "n1";

/** Measures items: all documents are in one note. */
export function useItems() {
  listedBy = "note";
}

/** The group of a document. */
export const groupOf = (index) => `g${String(index % GROUPS).padStart(2, "0")}`;

/** The names of the groups that a page shows. Those that the runner lists are not among them. */
export const shownGroups = (count) => Array.from({ length: count }, (_, at) => groupOf(GROUPS - 1 - at));

const nameOf = (list) => `l${String(list).padStart(2, "0")}`;

/** The names of all collections that an application of the lists shows; none for the other sets. */
export const allLists = () => (listedBy === "lists" ? Array.from({ length: LISTS }, (_, list) => nameOf(list)) : []);

/** The lists of a document: one to three different ones. */
function listsOf(index) {
  const next = random(index * 31 + 5);
  const lists = new Set(Array.from({ length: 1 + Math.floor(next() * 3) }, () => Math.floor(next() * LISTS)));
  return [...lists].map(nameOf);
}

/** Uses a list of packages as the documents, instead of generated ones. */
export function usePackages(list) {
  packages = list.map(({ name, section, summary, version, maintainer, size, tags, depends }) => ({
    id: name,
    section,
    title: summary,
    author: maintainer ?? "",
    n: size ?? 0,
    score: (size ?? 0) / 3,
    isOpen: (tags ?? []).length > 0,
    tags: tags ?? [],
    body: [version, ...(depends ?? [])].join(" "),
  }));
}

export const idOf = (index) => (packages ? packages[index].id : `d${String(index).padStart(7, "0")}`);
const sectionOf = (index, count) =>
  packages ? packages[index].section : `s${String(index % Math.ceil(count / SECTION_SIZE)).padStart(5, "0")}`;

/** The sections of the packages, ordered by how near they are to a hundred documents; for each requested count. */
const nearest = new Map();

/** The lists with their numbers of documents, for each requested count. */
const sizes = new Map();

/** A collection of about a hundred documents, or one of the lists; `which` selects one of several: `{ section, size }`. */
export function listed(which, count) {
  if (listedBy === "lists") {
    if (!sizes.has(count)) sizes.set(count, countedBy(Array.from({ length: count }, (_, index) => listsOf(index)).flat()));
    return { section: nameOf(which), size: sizes.get(count).get(nameOf(which)) ?? 0 };
  }
  if (listedBy === "group") return { section: groupOf(which), size: Math.floor((count - 1 - which) / GROUPS) + 1 };
  if (!packages) return { section: sectionOf(which, count), size: Math.min(SECTION_SIZE, count) };
  // Counted once: counting takes longer than the measured work.
  if (!nearest.has(count)) nearest.set(count, sectionsOf(packages.slice(0, count)));
  const [section, size] = nearest.get(count)[which % 10];
  return { section, size };
}

function countedBy(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function sectionsOf(documents) {
  return [...countedBy(documents.map(({ section }) => section))].sort(([, a], [, b]) => Math.abs(a - SECTION_SIZE) - Math.abs(b - SECTION_SIZE));
}

/** The document with that index; `round` makes another version of it. */
export function documentAt(index, count, round = 0) {
  if (packages) return round === 0 ? packages[index] : { ...packages[index], n: packages[index].n + round, body: `${round} ${packages[index].body}` };
  const next = random(index * 7919 + round * 104729 + 1);
  const words = (length) => Array.from({ length }, () => WORDS[Math.floor(next() * WORDS.length)]).join(" ");
  return {
    id: idOf(index),
    section: sectionOf(index, count),
    ...(listedBy === "lists" ? { lists: listsOf(index) } : {}),
    ...(listedBy === "group" ? { group: groupOf(index) } : {}),
    ...(listedBy === "note" ? { note: NOTE } : {}),
    title: words(6),
    author: words(2),
    n: Math.floor(next() * 1e9),
    score: next(),
    isOpen: next() < 0.5,
    tags: [words(1), words(1), words(1)],
    body: words(130),
  };
}

/** All documents, in batches. */
export function batchesOf(count, size = 500) {
  const batches = [];
  for (let from = 0; from < count; from += size) {
    const length = Math.min(size, count - from);
    batches.push(Array.from({ length }, (_, at) => documentAt(from + at, count)));
  }
  return batches;
}

/** New versions of `total` randomly chosen documents, in batches of `size`. */
export function updatesOf(count, round, total = 1_000, size = 100) {
  const next = random(round + 17);
  const chosen = new Set();
  while (chosen.size < Math.min(total, count)) chosen.add(Math.floor(next() * count));
  const documents = [...chosen].map((index) => documentAt(index, count, round));
  const batches = [];
  for (let from = 0; from < documents.length; from += size) batches.push(documents.slice(from, from + size));
  return batches;
}

/** Randomly chosen ids. */
export function idsOf(count, round, total = 1_000) {
  const next = random(round + 31);
  return Array.from({ length: total }, () => idOf(Math.floor(next() * count)));
}

let seen = 0;

/** Reads each property of a document, so that no system can skip work. */
export function touch(document) {
  for (const name in document) {
    const value = document[name];
    seen += typeof value === "number" ? value & 1 : typeof value === "string" ? value.length : Array.isArray(value) ? value.length : 1;
  }
  return seen;
}
