// TypeScript accepts the interface of `escale-handler` as docs/handler.md uses it, and refuses misuses. `tsc` checks this file.
import { createServer } from "node:http";

import { byTokens, createHandler, Fault, memory, shaS, type Documents, type Storage } from "escale-handler";
import { CASES } from "escale-handler/conformance";
import { serve, toNode } from "escale-handler/node";
import { postgres } from "escale-handler/postgres";
import { openSqlite, sqlite } from "escale-handler/sqlite";

declare const pool: object;
declare const database: object;

const take = (documents: Documents, { name }: { name?: unknown }): number => {
  const found = documents.get("Package", [String(name)]);
  if (!found) throw new Fault("sold_out", "A", "There is none left.");
  documents.patch("Package", [String(name)], { left: Number(found["left"]) - 1 });
  return Number(found["left"]) - 1;
};
const handler = createHandler({
  schema: { Package: { key: ["name"] } },
  storage: await postgres(pool, { table: "rows" }),
  authorize: async ({ token, org }) => (token === org ? { account: token, role: "read" } : undefined),
  origins: ["https://app.example"],
  operations: { take },
});
export const answer: Promise<Response> = handler.fetch(new Request("http://server/demo/sync"));
const opened = handler.live(new Request("http://server/demo/live"));
if (!(opened instanceof Response)) opened(new WebSocket("ws://server"));
const { url, close } = await serve(handler, { port: 0 });
await close();
createServer(toNode(handler, { handleUpgrade: () => {} }).request);

createHandler({ schema: {}, storage: memory(), authorize: byTokens({ t: { account: "a", orgs: ["demo"] } }), origins: "*" });
createHandler({ schema: {}, storage: await openSqlite("data.sqlite") });
createHandler({ schema: {}, storage: sqlite(database, { synchronous: "NORMAL" }) });
const own: Storage = memory();
for (const check of Object.values(CASES)) await check(own);
export const names: string = shaS(url);

// @ts-expect-error a handler needs a storage
createHandler({ schema: {} });
// @ts-expect-error an operation is not async
createHandler({ schema: {}, storage: memory(), operations: { later: async () => 1 } });
// @ts-expect-error there is no such role
byTokens({ t: { account: "a", orgs: [], role: "owner" } });
// @ts-expect-error a fault has one of eight kinds
export const fault = new Fault("code", "Z");
