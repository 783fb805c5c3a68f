// The model of the random histories: the state that accepted operations lead to, whichever answer arrived first.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Model } from "../../conformance/src/history/model.mjs";
import { randomFrom } from "../../conformance/src/names.mjs";
import { count } from "../../testkit/effort.mjs";

const write = (kind, id, data) => ({ kind, className: "Note", key: [id], data: kind === "put" ? { id, ...data } : data });

/** The documents and mistakes of these operations, each `[v, write, ..]`, if their answers arrive in this order. */
function replayed(operations) {
  const model = new Model();
  for (const [v, ...writes] of operations) model.accept(writes, { v });
  const { documents, mistakes } = model.replay();
  return { documents: [...documents.values()].map(({ v, data }) => [v, data.id, data.n]).sort(), mistakes };
}

test("a patch that changed nothing comes after the write whose version it has, whichever answer arrived first", () => {
  const put = [100, write("put", "1", { n: 5 })];
  const patch = [100, write("patch", "1", { n: 5 })];
  for (const order of [[put, patch], [patch, put]]) {
    assert.deepEqual(replayed(order), { documents: [[100, "1", 5]], mistakes: [] });
  }
  // The write that created the document is a patch of an older one.
  const older = [50, write("put", "1", { n: 1, box: "in" })];
  const changed = [100, write("patch", "1", { n: 5 })];
  const unchanged = [100, write("put", "1", { n: 5, box: "in" })];
  for (const order of [[older, changed, unchanged], [unchanged, changed, older]]) {
    assert.deepEqual(replayed(order), { documents: [[100, "1", 5]], mistakes: [] });
  }
});

test("two operations of one version that both change something are still found", () => {
  const { documents, mistakes } = replayed([[100, write("put", "1", { n: 5 })], [100, write("delete", "1")], [100, write("patch", "1", { n: 6 })]]);
  assert.ok(mistakes.length > 0, JSON.stringify(documents));
});

test("random operations lead to one state in any order of their answers", () => {
  for (let seed = 0; seed < count("MODELS", 500); seed++) {
    const below = randomFrom(seed);
    // A server in two lines: an operation without a change has the highest version of its documents.
    const [state, operations] = [new Map(), []];
    for (let now = 1; now <= 12; now++) {
      const writes = Array.from({ length: 1 + below(2) }, () => {
        const id = `${below(3)}`;
        const living = state.get(id);
        const kind = living ? ["put", "patch", "delete"][below(3)] : "put";
        return write(kind, id, kind === "delete" ? undefined : { n: below(2) });
      });
      if (new Set(writes.map(({ key }) => key[0])).size < writes.length) continue;
      const changes = writes.filter(({ kind, key, data }) => kind === "delete" || state.get(key[0])?.n !== data.n);
      const v = changes.length ? now : Math.max(...writes.map(({ key }) => state.get(key[0]).v));
      for (const { kind, key, data } of changes) {
        if (kind === "delete") state.delete(key[0]);
        else state.set(key[0], { v: now, n: data.n });
      }
      operations.push([v, ...writes]);
    }
    const documents = [...state].map(([id, { v, n }]) => [v, id, n]).sort();
    for (let i = operations.length - 1; i > 0; i--) {
      const j = below(i + 1);
      [operations[i], operations[j]] = [operations[j], operations[i]];
    }
    assert.deepEqual(replayed(operations), { documents, mistakes: [] }, `seed ${seed}`);
  }
});
