// The example of docs/writes.md, checked by `tsc`, never run. The page holds the lines below `README:` word for word;
// the tests of `tests/tidy` compare them.
declare const passphrase: string;
declare function show(...what: unknown[]): void;

// README:
import { defineOperations, defineSchema, open } from "escale";
import { advice } from "escale/advice";

const schema = defineSchema({
  Note: {
    key: ["id"],
    collections: { box: { key: ["box"], mutable: true } },
    properties: { id: "string", box: "string", text: "string" },
  },
  Contact: { key: ["id"], properties: { id: "string", phone: "string" } },
  Counter: { key: ["id"], properties: { id: "string", n: "number" } },
});

// Operations of your own: the server executes them. Until it has answered, the optimistic part shows the effect.
const operations = defineOperations(schema, {
  "counter.add": {
    optimistic(tx, { key, by }: { key: [string]; by: number }) {
      const [id] = key;
      tx.put("Counter", { id, n: (tx.get("Counter", key)?.n ?? 0) + by });
    },
  },
});

const session = await open({
  org: "demo",
  schema,
  operations,
  conflicts: {
    // The user decides: see the refused operations below.
    Contact: "ask",
    // Both wrote to a note: both texts are kept. Where one of them deleted it, the server's stays.
    Note: (_base, mine, theirs) => (mine && theirs ? { ...mine, text: `${theirs.text}\n${mine.text}` } : undefined),
  },
  server: "http://localhost:7700",
  passphrase,
});

// Saved and accepted.
const put = session.put("Note", { id: "n1", box: "in", text: "Buy bread" });
show(await put.saved); // "device": it survives a crash from here on; "memory" in an incognito session
show((await put.accepted).v); // the server has executed it; nobody needs to wait for this

// The other writes.
// undefined takes a property away
const patched = session.patch("Note", ["n1"], { text: "Buy two loaves", box: undefined });
// Refused if somebody else wrote in between. `conflicts` makes no difference here.
session.delete("Note", ["n1"], { ifVersion: patched });
const added = session.run("counter.add", { key: ["visits"], by: 1 });
show((await added.accepted).value); // the value that the operation returned
session.batch((tx) => {
  tx.put("Note", { id: "n2", box: "out", text: "All of this, or nothing" });
  tx.run("counter.add", { key: ["visits"], by: 1 });
});

// The pending operations, and the refused ones.
session.status.subscribe(({ pending }) => show(`${pending} waiting`));
for (const { name, at, state } of session.pending()) show(name, at, state);
session.refused.subscribe((refused) => {
  for (const entry of refused) {
    // The obstacle and the next step, for the user.
    show(advice(entry.error));
    if (entry.theirs && entry.mine !== undefined) {
      // By "ask", or if a function of yours threw: the document that the write was made on, its result, the server's.
      show(entry.base, entry.mine, entry.theirs.doc);
      entry.retry(); // the user keeps their own: it replaces `theirs`, and no later document. Or entry.amend(..)
    } else if (entry.theirs && entry.name !== "batch") {
      // The write named a version itself. Not for a batch: each of its parts has an `ifVersion` of its own.
      entry.amend({ ...entry.args, ifVersion: entry.theirs.v });
    } else {
      entry.discard(); // or entry.retry(), once the obstacle is gone
    }
  }
});

// The history of a document, and forgetting it.
for (const past of await session.history("Note", ["n1"])) {
  if (past.type === "persist") show(past.at, past.doc, past.commit === null ? "waiting" : "accepted");
}
const preview = await session.journal.sweep({ days: 30, max: 10 }); // only lists the states; removes nothing
if (preview.removed > 0) await session.journal.sweep({ days: 30, max: 10, apply: true });
