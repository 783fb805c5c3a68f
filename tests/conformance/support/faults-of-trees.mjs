// Faults about trees, planted in `escale-handler` as those of faults.mjs are.
import { HEAD, keyOfOperation, NO_TREE, OPERATIONS, ORGS, TREES } from "../../../handler/src/engine/tables.mjs";
import { Write } from "../../../handler/src/engine/write.mjs";

/** Lets `change` see each write before one of these operations runs in it. It may return other arguments. */
const writes = (names, change) => ({ engine }) => {
  for (const name of names) {
    const { [name]: execute } = engine.operations;
    engine.operations[name] = function* (write, args) {
      const { class: className } = args ?? {};
      const changed = yield* change({ write, args, cls: engine.classes.get(className) });
      return yield* execute(write, changed ?? args, engine);
    };
  }
};
const puts = (change) => writes(["doc.put"], change);
/** Lets `change` see each part of an answer, with its subscription. */
const answers = (change) => ({ engine: { reader } }) => {
  const { answer } = reader;
  reader.answer = function* (snapshot, sub, ...rest) {
    const part = yield* answer.call(reader, snapshot, sub, ...rest);
    if (part && !part.fault) change(part, { snapshot, sub });
    return part;
  };
};
/** Lets `change` replace the arguments of an answer. */
const asked = (change) => ({ engine: { reader } }) => {
  const { answer } = reader;
  reader.answer = (snapshot, sub, ...rest) => answer.call(reader, ...change(snapshot, sub, reader), ...rest);
};
/** Lets `change` see each write before it is committed. */
const finished = (change) => ({ engine }) => {
  const { finish } = engine;
  engine.finish = function* (write, state) {
    change(write);
    yield* finish.call(engine, write, state);
  };
};
/** Lets `change` make other rows of a table after each purge, in all orgs. The storage answers at once. */
const purged = (table, change) => ({ engine }) => {
  const { purge, storage } = engine;
  const all = { after: [-1, ""], limit: Infinity };
  engine.purge = function* () {
    yield* purge.call(engine);
    storage.write("", (tx) => {
      for (const [org] of tx.page("", ORGS, all)) tx.set(tx.page(org, table, all).map(([key, row]) => [org, table, key, change(row)]));
    });
  };
};
/** Lets `change` see the numbers of each accepted operation before they are kept. */
const results = (change) => writes(["doc.put", "doc.patch", "doc.delete", "batch"], function* ({ write }) {
  write.trees = function* () {
    return change(yield* Write.prototype.trees.call(write), write);
  };
});

const isItems = ({ def }) => def.includes("/in@");

/** Each fault with the id of the check that finds it. */
export const ITEM_FAULTS = {
  "a class of items can be asked for as a whole": ["items.defs", ({ engine: { reader } }) => {
    const { find } = reader;
    reader.find = (def) => find.call(reader, def) ?? (def === "Line" ? { cls: reader.classes.get("Line"), table: "Line" } : undefined);
  }],
  "an item needs no parent": ["items.parent-first", puts(function* ({ write, cls }) {
    if (!cls?.parent) return;
    const { document } = write;
    write.document = function* (of, ...rest) {
      return of.items.length ? { links: [], data: {} } : yield* document.call(write, of, ...rest);
    };
  })],
  "a long key of an item is cut": ["items.key", puts(function* ({ args, cls }) {
    if (cls?.parent) return { ...args, data: { ...args.data, number: args.data.number?.slice(0, 255) } };
  })],
  "items outlive their parent": ["items.end-with-parent", ({ engine: { reader } }) => {
    reader.tree = function* () {
      return NO_TREE;
    };
  }],
  "no floor in a pull from 0": ["items.floor", answers((part, { sub: [, v] }) => {
    if (v === 0) delete part.floor;
  })],
  "a total from below the floor": ["items.counted-from-the-floor", answers((part, { snapshot: { tx, org } }) => {
    if (isItems(part)) part.total = tx.page(org, part.def, { after: [0, ""], limit: Infinity }).length;
  })],
  "a write finds an item below the floor": ["items.below-the-floor", writes(["doc.put", "doc.patch"], function* ({ write, cls }) {
    const { document } = write;
    write.document = function* (of, pk, ...rest) {
      if (cls?.parent === undefined || of !== cls) return yield* document.call(write, of, pk, ...rest);
      const row = yield* write.get(of.name, pk);
      return row && { ...row.value, v: row.v, deleted: row.state !== "alive" };
    };
  })],
  "an item of the write that deletes its parent stays": ["items.at-the-floor", writes(["doc.delete"], function* ({ write }) {
    write.endItems = (cls, pk, tree) => write.setTree(tree, { floor: write.now, items: 0 });
  })],
  "a single item ends at its own version": ["items.single-item", ({ engine: { reader } }) => {
    const { changes } = reader;
    reader.changes = function* (snapshot, found, ...rest) {
      const all = yield* changes.call(reader, snapshot, found, ...rest);
      if (!found.pk || !found.cls.parent) return all;
      return all.map((one) => ({ ...one, v: snapshot.tx.get(snapshot.org, found.cls.name, [one.pk])[0].v }));
    };
  }],
  "a floor is told once": ["items.answer-lost", (handler) => {
    const told = new Set();
    answers((part, { sub }) => {
      if (told.has(sub.join()) && part.floor) delete part.floor;
      told.add(sub.join());
    })(handler);
  }],
  "a tree is divided between replies": ["items.neighbours", ({ engine: { reader } }) => (reader.groups = (subs) => subs.map((sub) => [sub]))],
  "a large tree is taken back for ever": ["items.large-tree", ({ engine: { reader } }) => {
    const { answerAll } = reader;
    reader.answerAll = function* (snapshot, group, room, parts) {
      const before = parts.length;
      const isWhole = yield* answerAll.call(reader, snapshot, group, room, parts);
      if (!isWhole && group.length > 1) parts.length = before;
      return isWhole;
    };
  }],
  "a small page cuts a tree": ["items.small-page", ({ engine: { reader } }) => (reader.pageBytes = 1_000)],
  "the end of a parent is hinted at itself only": ["items.hints", finished(({ defs }) => {
    if ([...defs.keys()].some((def) => def.startsWith("Page@"))) for (const def of defs.keys()) if (def.includes("/in@")) defs.delete(def);
  })],
  "single items that ended with their parent are not hinted": ["items.single-hints", finished(({ defs }) => {
    if ([...defs.keys()].some((def) => def.startsWith("Page@"))) for (const def of defs.keys()) if (def.startsWith("Line@")) defs.delete(def);
  })],
  "a parent has an end": ["items.max-life", puts(function* ({ args, cls }) {
    if (cls?.items.length) return { ...args, data: { ...args.data, maxLife: undefined } };
  })],
  "a raw item has other properties": ["items.raw", ({ engine }) => (engine.classes.get("Scan").raw = false)],
  "a parent has any number of items": ["items.too-many", puts(function* ({ write }) {
    const { setTree } = write;
    write.setTree = (tree, change) => {
      const kept = { ...change };
      delete kept.items;
      return setTree.call(write, tree, kept);
    };
  }), { quick: false }],
  "a purge of items moves no horizon": ["items.purged", purged(HEAD, (head) => ({ ...head, value: { ...head.value, horizon: 0 } }))],
  "a floor is never told": ["histories.of-items", answers((part) => delete part.floor), { histories: "24", steps: "80" }],
  "a parent has a floor": ["watch.floor", answers((part) => {
    if (part.def.startsWith("Page@")) part.floor = 1;
  }), { only: "items.neighbours,watch" }],
};

/** The same, about the clock `sequence`. */
export const NUMBER_FAULTS = {
  "a single item of a numbered class can be asked for": ["numbers.defs", ({ engine: { reader } }) => {
    const { find } = reader;
    reader.find = (def) => {
      const found = find.call(reader, def);
      return found || !def.startsWith("Entry@") ? found : { cls: reader.classes.get("Entry"), pk: def.slice(6) };
    };
  }],
  "each document of a write takes a number": ["numbers.contiguous", puts(function* ({ write, cls }) {
    if (cls?.isNumbered) write.taken.clear();
  })],
  "one counter for all documents of a class": ["numbers.own-tree", writes(["doc.put", "doc.delete"], function* ({ write }) {
    const { versionIn } = write;
    write.versionIn = function* (of, tree) {
      if (of.name !== "Meter") return yield* versionIn.call(write, of, tree);
      const all = write.tx.page(write.org, TREES, { after: [0, ""], limit: Infinity }).filter(([name]) => name.startsWith("Meter "));
      yield* write.setTree(tree, { n: Math.max(0, ...all.map(([, { value }]) => value.n)) + 1 });
      write.taken.add(tree);
      return (yield* write.tree(tree)).n;
    };
  })],
  "a put that changes nothing takes a number": ["numbers.no-change", puts(function* ({ write }) {
    write.keep = function* (cls, tree) {
      yield* write.versionIn(cls, tree);
    };
  })],
  "one number for all trees of a write": ["numbers.two-trees", results((trees) => trees.map(([name, pk]) => [name, pk, trees[0][2]]))],
  "a purge forgets the numbers": ["numbers.go-on", purged(TREES, () => undefined)],
  "n is the highest version of the def": ["numbers.n", answers((part) => {
    if (part.n !== undefined) part.n = Math.max(0, ...part.rows.map(({ v }) => v));
  })],
  "changes at the asked number": ["numbers.above", asked((snapshot, [def, v, ...cursor], reader) => {
    const isNumbered = reader.find(def)?.cls.isNumbered;
    return [snapshot, [def, isNumbered && !cursor.length && v > 0 ? v - 1 : v, ...cursor]];
  })],
  "all pages have the number of the first one": ["numbers.first", (handler) => {
    const firsts = new Map();
    answers((part, { sub: [, , cursor] }) => {
      if (part.n !== undefined) part.n = firsts.get(cursor) ?? part.n;
      if (part.next) firsts.set(part.next, part.n);
    })(handler);
  }],
  "no number for a tree that stays as it is": ["numbers.results", results((trees, write) => trees.filter(([name, pk]) => write.taken.has(`${name} ${pk}`)))],
  "the result of numbered documents alone is 0": ["numbers.result-alone", ({ engine }) => {
    const { reply } = engine;
    engine.reply = function* (...args) {
      const one = yield* reply.apply(engine, args);
      return { ...one, results: one.results.map((result) => (result.ok?.trees?.length ? { ...result, ok: { ...result.ok, v: 0 } } : result)) };
    };
  }],
  "a kept result has no numbers": ["numbers.kept-result", finished((write) => {
    for (const change of write.changes.values()) {
      const [, table, , row] = change;
      const { result } = row?.value ?? {};
      if (table === OPERATIONS && result?.ok) change[3] = { ...row, value: { ...row.value, result: { ...result, ok: { v: result.ok.v } } } };
    }
  })],
  "an operation is compared by its time": ["numbers.if-version", writes(["doc.put", "doc.patch"], function* ({ args, write }) {
    const { op } = args.ifVersion ?? {};
    const known = op && (yield* write.get(OPERATIONS, keyOfOperation(write.account, op)));
    if (known?.value.result.ok) return { ...args, ifVersion: undefined };
  })],
  "a forgotten result holds": ["numbers.if-version-forgotten", writes(["doc.patch"], function* ({ args, write }) {
    const { op } = args.ifVersion ?? {};
    if (op && !(yield* write.get(OPERATIONS, keyOfOperation(write.account, op)))?.value.result) return { ...args, ifVersion: undefined };
  })],
  "two writes take one number": ["numbers.parallel", writes(["doc.put"], function* ({ write, cls }) {
    const { setTree } = write;
    if (cls?.name === "Entry") write.setTree = (tree, { n, ...change }) => setTree.call(write, tree, { ...change, ...(n && { n: n % 5 ? n : n - 1 }) });
  })],
  "each part has a number of its own": ["numbers.one-state", answers((part) => {
    if (part.n !== undefined && isItems(part)) part.n += 1;
  })],
  "hints have the time as their version": ["numbers.hints", finished((write) => {
    for (const def of write.defs.keys()) write.defs.set(def, write.now);
  })],
  "an item past its life is a row": ["numbers.end-of-a-life", asked((snapshot, sub) => [{ ...snapshot, now: 0 }, sub])],
  "the horizon of a tree is that of its org": ["numbers.purge", purged(TREES, (tree) => ({ ...tree, value: { ...tree.value, horizon: 0 } }))],
  "a change has the number before": ["histories.of-numbers", asked((snapshot, [def, v, ...cursor], reader) => {
    const isNumbered = reader.find(def)?.cls.isNumbered;
    return [snapshot, [def, isNumbered && !cursor.length && v > 0 ? v + 1 : v, ...cursor]];
  }), { histories: "24", steps: "80" }],
  "a numbered part has no number": ["watch.number", answers((part) => delete part.n), { only: "numbers.defs,watch" }],
};
