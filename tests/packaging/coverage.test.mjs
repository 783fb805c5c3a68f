// A class that is loaded answers its collections: without a byte from the server, offline, and after it has ended.
import assert from "node:assert/strict";
import { test } from "node:test";

import "fake-indexeddb/auto";

import { makePageServer } from "../e2e/support/in-page/page-server.js";

const ids = (docs) => docs.map(({ id }) => id);

test("a collection of a loaded class asks nothing of the server, and becomes a subscription when the class ends", async () => {
  const { defineSchema, open, wipe } = await import("escale");
  const schema = defineSchema({ Book: { key: ["id"], collections: { shelf: { key: ["shelf"], mutable: true } } } });
  const { adapter } = makePageServer();
  /** Every def that a request named, with its version. */
  const asked = [];
  const server = {
    ...adapter,
    async sync(request) {
      asked.push(...request.subs.map(([def, v]) => [def, v]));
      const reply = await adapter.sync(request);
      const isEven = ({ data }) => data.shelf === "even";
      for (const part of reply.parts.filter(({ def }) => def !== "Book")) {
        part.left = part.rows.filter((row) => !isEven(row)).map(({ pk, v }) => [pk, v]);
        part.rows = part.rows.filter(isEven);
      }
      return reply;
    },
  };
  const options = { org: "coverage", schema, server, key: new Uint8Array(32) };
  let session = await open(options);
  await session.collection("Book", {}).ready;
  for (let n = 0; n < 6; n++) session.put("Book", { id: `b${n}`, shelf: n % 2 ? "odd" : "even" });
  await session.put("Book", { id: "last", shelf: "odd" }).accepted;
  await session.flush();

  const odd = session.collection("Book", { shelf: "odd" });
  assert.deepEqual(ids(await odd.ready), ["b1", "b3", "b5", "last"]);
  await session.put("Book", { id: "b2", shelf: "odd" }).accepted;
  await session.put("Book", { id: "b1", shelf: "even" }).accepted;
  await new Promise((resolve) => odd.subscribe((docs) => ids(docs).join() === "b2,b3,b5,last" && resolve()));
  assert.deepEqual([...new Set(asked.map(([def]) => def))], ["Book"], "only the class is on the wire");
  await session.close();

  // Offline, in another opening: ready at once.
  session = await open({ ...options, mode: "avion" });
  const even = session.collection("Book", { shelf: "even" });
  assert.deepEqual(ids(await even.ready), ["b0", "b1", "b4"]);
  assert.deepEqual(ids(await session.query("Book").in({ shelf: "even" }).limit(2).docs()), ["b0", "b1"]);
  await new Promise((resolve) => session.status.subscribe(({ leads }) => leads && resolve()));
  // The class ends: the listed documents stay, and the others leave.
  session.unsubscribe("Book", {});
  assert.deepEqual(session.subscriptions().length, 1);
  assert.deepEqual(ids(await even.ready), ["b0", "b1", "b4"]);
  assert.equal(await session.get("Book", ["b3"]), undefined);
  await session.flush();
  await session.close();

  asked.length = 0;
  session = await open(options);
  const later = session.collection("Book", { shelf: "even" });
  assert.deepEqual(ids(await later.ready), ["b0", "b1", "b4"]);
  await session.put("Book", { id: "b6", shelf: "even" }).accepted;
  assert.ok(asked.length > 0 && asked.every(([def, v]) => def !== "Book" && v > 0), "only later changes are asked for");
  await session.wipe();
  await wipe({ org: "coverage" });
});
