// The cases that a storage has to pass. Each takes a storage that is empty, and rejects at the first broken promise.
import assert from "node:assert/strict";

const [ORG, TABLE] = ["org", "Note"];
const row = (v, more = {}) => ({ v, at: v, state: "alive", value: { n: v }, ...more });
const all = { after: [-1, ""], limit: 1_000 };

const put = (storage, rows, org = ORG) => storage.write(org, (tx) => tx.set(rows.map(([table, key, one]) => [org, table, key, one])));
const look = (storage, act, org = ORG) => storage.read(org, act);
const keys = async (page) => (await page).map(([key]) => key);
const vOf = async (storage, key) => (await look(storage, (tx) => tx.get(ORG, TABLE, [key])))[0]?.v;

/** A promise, and the function that keeps it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

export const CASES = {
  async "a row comes back as it was put"(storage) {
    const value = { text: "\u00e9 \u{1f600} \u0000", list: [1, 1.5, -0.25, true, null], bytes: Uint8Array.of(0, 1, 255), $bytes: 1, $$bytes: "x", nested: { __proto: 1 } };
    const rows = [row(1, { value }), row(Number.MAX_SAFE_INTEGER, { at: 5, state: "deleted", ends: 7 }), row(0, { state: "left", value: undefined })];
    await put(storage, rows.map((one, i) => [TABLE, `${i}`, one]));
    const found = await look(storage, (tx) => tx.get(ORG, TABLE, ["2", "none", "0", "1", "0"]));
    const plain = (one) => one && { ...one, ends: one.ends, value: one.value };
    assert.deepEqual(found.map(plain), [rows[2], undefined, rows[0], rows[1], rows[0]].map(plain));
    assert.deepEqual(await look(storage, (tx) => tx.get(ORG, TABLE, [])), []);
  },
  async "a row is replaced, and removed"(storage) {
    await put(storage, [[TABLE, "a", row(1)], [TABLE, "b", row(1)]]);
    await put(storage, [[TABLE, "a", row(2, { state: "deleted" })], [TABLE, "b", undefined], [TABLE, "c", undefined]]);
    const [a, b] = await look(storage, (tx) => tx.get(ORG, TABLE, ["a", "b"]));
    assert.deepEqual([a.v, a.state, b], [2, "deleted", undefined]);
    assert.deepEqual(await keys(look(storage, (tx) => tx.page(ORG, TABLE, all))), ["a"]);
  },
  async "orgs and tables are kept apart"(storage) {
    await put(storage, [[TABLE, "a", row(1)], ["Note/box@x", "a", row(2)]]);
    await put(storage, [[TABLE, "a", row(3)]], "other");
    const found = await Promise.all([
      look(storage, (tx) => tx.page(ORG, TABLE, all)),
      look(storage, (tx) => tx.page(ORG, "Note/box@x", all)),
      look(storage, (tx) => tx.page("other", TABLE, all), "other"),
      look(storage, (tx) => tx.page("other", "Note/box@x", all), "other"),
    ]);
    assert.deepEqual(found.map((page) => page.map(([, { v }]) => v)), [[1], [2], [3], []]);
  },
  async "pages ascend by v, then by the bytes of the key, and go on behind a place"(storage) {
    const names = ["-", "0", "9", "A", "Z", "_", "a", "z"];
    const rows = [3, 1, 2].flatMap((v) => names.map((name) => [TABLE, `${name}${v}`, row(v)]));
    await put(storage, rows);
    const wanted = [1, 2, 3].flatMap((v) => names.map((name) => `${name}${v}`));
    assert.deepEqual(await keys(look(storage, (tx) => tx.page(ORG, TABLE, all))), wanted);
    const met = [];
    for (let after = [0, ""]; ; ) {
      const page = await look(storage, (tx) => tx.page(ORG, TABLE, { after, limit: 5, bare: met.length > 10 }));
      met.push(...page.map(([key]) => key));
      if (page.length < 5) break;
      after = [page.at(-1)[1].v, page.at(-1)[0]];
    }
    assert.deepEqual(met, wanted);
    assert.deepEqual(await keys(look(storage, (tx) => tx.page(ORG, TABLE, { after: [2, "z2"], limit: 1 }))), ["-3"]);
  },
  async "a count leaves out the departed, and deletions from before a bound"(storage) {
    const rows = [row(1), row(2, { state: "deleted" }), row(3, { state: "left" }), row(4, { ends: 100 }), row(5, { state: "deleted" }), row(6, { ends: 200 })];
    await put(storage, rows.map((one) => [TABLE, `${one.v}`, one]));
    const count = (since, gone, now) => look(storage, (tx) => tx.count(ORG, TABLE, { since, gone, now }));
    assert.deepEqual([await count(0, 0, 99), await count(0, 5, 99), await count(0, 5, 100), await count(0, 7, 200), await count(5, 0, 0)], [5, 4, 3, 1, 2]);
  },
  async "a write that fails leaves nothing, at once or later"(storage) {
    await put(storage, [[TABLE, "a", row(1)]]);
    const fails = [
      (tx) => {
        tx.get(ORG, TABLE, ["a"]);
        throw new Error("as the test wants it");
      },
      async (tx) => {
        await tx.get(ORG, TABLE, ["a"]);
        throw new Error("as the test wants it");
      },
    ];
    for (const act of fails) await assert.rejects(async () => await storage.write(ORG, act), /as the test wants it/);
    await put(storage, [[TABLE, "b", row(2)]]);
    assert.deepEqual(await keys(look(storage, (tx) => tx.page(ORG, TABLE, all))), ["a", "b"]);
  },
  async "the result of a transaction is the caller's"(storage) {
    assert.equal(await storage.read(ORG, () => 5), 5);
    assert.equal(await storage.write(ORG, async () => 6), 6);
  },
  async "writes under one lock come one after another"(storage) {
    await put(storage, [[TABLE, "n", row(0)]]);
    const raise = () =>
      storage.write(ORG, async (tx) => {
        const [{ v }] = await tx.get(ORG, TABLE, ["n"]);
        await tx.set([[ORG, TABLE, "n", row(v + 1)]]);
      });
    await Promise.all(Array.from({ length: 20 }, raise));
    assert.equal(await vOf(storage, "n"), 20);
  },
  async "a snapshot has each write that began before it, and none that began later"(storage) {
    await put(storage, [[TABLE, "n", row(1)]]);
    // Connections are made, so that a reader that does not wait is faster than the write.
    await Promise.all([vOf(storage, "n"), vOf(storage, "n"), vOf(storage, "n")]);
    const [begun, hold] = [gate(), gate()];
    const write = storage.write(ORG, async (tx) => {
      begun.open();
      await hold.opened;
      for (let i = 0; i < 30; i++) await tx.get(ORG, TABLE, ["n"]);
      await tx.set([[ORG, TABLE, "n", row(2)]]);
    });
    await begun.opened;
    // The write has begun, and ends only now: the reader has to wait for it.
    const read = vOf(storage, "n");
    hold.open();
    await write;
    assert.equal(await read, 2);
  },
  async "a snapshot stays as it was"(storage) {
    await put(storage, [[TABLE, "n", row(1)]]);
    const [begun, hold] = [gate(), gate()];
    const read = storage.read(ORG, async (tx) => {
      const first = (await tx.get(ORG, TABLE, ["n"]))[0].v;
      begun.open();
      await hold.opened;
      return [first, (await tx.get(ORG, TABLE, ["n"]))[0].v, (await tx.page(ORG, TABLE, all))[0][1].v];
    });
    await begun.opened;
    // It may wait for the reader, or not.
    const write = put(storage, [[TABLE, "n", row(2)]]);
    hold.open();
    assert.deepEqual(await read, [1, 1, 1]);
    await write;
    assert.equal(await vOf(storage, "n"), 2);
  },
  async "many rows, and large ones"(storage) {
    const text = "x".repeat(1_000_000);
    const rows = Array.from({ length: 1_200 }, (_, i) => [TABLE, `${i}`, row(i + 1, { value: { text: i === 7 ? text : "y" } })]);
    await put(storage, rows);
    assert.equal((await look(storage, (tx) => tx.page(ORG, TABLE, { after: [0, ""], limit: 5_000 }))).length, 1_200);
    assert.equal((await look(storage, (tx) => tx.get(ORG, TABLE, ["7"])))[0].value.text.length, text.length);
    const named = await look(storage, (tx) => tx.get(ORG, TABLE, rows.map(([, key]) => key)));
    assert.deepEqual(named.map(({ v }) => v), rows.map((_, i) => i + 1));
  },
};
