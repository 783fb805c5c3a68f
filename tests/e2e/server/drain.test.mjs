// A long time offline: ten thousand operations are written without a server, the page is reloaded, and the real server
// then takes them all. Prints the times and the round trips; `OPERATIONS` sets the number.
import assert from "node:assert/strict";
import { test } from "node:test";

import { onServer, openWriter, writingWorld } from "../support/writing.mjs";

const OPERATIONS = Number(process.env.OPERATIONS ?? 10_000);
const NOTES = 100;

test("ten thousand operations written offline are drained, each done once", { timeout: 120_000 + OPERATIONS * 20 }, async (t) => {
  const { server, proxy, page, session, restart } = await writingWorld(t);
  await openWriter(page, session);
  const isOffline = page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "offline"));
  await server.stop("SIGKILL");
  await isOffline;
  const written = await page.evaluate(async ([operations, notes]) => {
    const { session: writer } = window.page.sessions.main;
    const began = performance.now();
    const all = Array.from({ length: operations }, (_, n) =>
      n % 2 === 0 ? writer.run("counter.add", { key: ["visits"], by: 1 }) : writer.put("Note", { id: `n${n % notes}`, box: "in", size: n }),
    );
    await Promise.all(all.map(({ saved }) => saved));
    return performance.now() - began;
  }, [OPERATIONS, NOTES]);

  await restart();
  const beforeOpening = Date.now();
  await openWriter(page, session, { offline: true });
  const waiting = await page.evaluate(() => window.page.sessions.main.session.pending().length);
  const opened = Date.now() - beforeOpening;
  assert.equal(waiting, OPERATIONS, "all of them outlive the page");

  const from = proxy.requests.length;
  const began = Date.now();
  // However long it takes: the test's own limit ends it.
  const drained = page.evaluate(
    () => new Promise((resolve) => window.page.sessions.main.session.status.subscribe(({ pending }) => pending === 0 && resolve())),
  );
  await server.start();
  await drained;
  const seconds = (Date.now() - began) / 1_000;
  const trips = proxy.requests.slice(from).filter(({ ops }) => ops.length > 0);
  const sent = trips.flatMap(({ ops }) => ops.map(({ id }) => id));
  assert.equal(new Set(sent).size, OPERATIONS);
  assert.ok(trips.length <= OPERATIONS / 400 + 5, `batched: ${trips.length} round trips`);
  const half = Math.ceil(OPERATIONS / 2);
  assert.deepEqual(await onServer(page, session, "Counter"), [{ id: "visits", n: half }]);
  const notes = new Map((await onServer(page, session, "Note")).map(({ id, size }) => [id, size]));
  const last = new Map(Array.from({ length: OPERATIONS }, (_, n) => [`n${n % NOTES}`, n]).filter((_, n) => n % 2 === 1));
  assert.deepEqual(notes, new Map([...last].sort(([a], [b]) => (a < b ? -1 : 1))));
  console.log(`# ${OPERATIONS} operations: saved offline in ${(written / 1_000).toFixed(1)} s, opened again in ${(opened / 1_000).toFixed(1)} s`);
  console.log(`# drained ${seconds.toFixed(1)} s after the server's start began, in ${trips.length} round trips`);
});
