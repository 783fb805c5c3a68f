// A server of the Escale protocol in Node: `escale-handler` on SQLite or PostgreSQL. Begin here, and add your own operations.
//
//     node server.mjs --schema schema.json --port 7700 --data data.sqlite
//     node server.mjs --schema schema.json --port 7700 --data postgres://user@host/name
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import pg from "pg";

import { byTokens, createHandler, memory } from "escale-handler";
import { serve } from "escale-handler/node";
import { postgres } from "escale-handler/postgres";
import { openSqlite } from "escale-handler/sqlite";

const options = { "renew-epoch": { type: "boolean" } };
for (const name of ["schema", "port", "data", "tokens", "retention-ms", "results-ms", "page-bytes", "clock-offset-ms", "synchronous"]) options[name] = { type: "string" };
const { values } = parseArgs({ options });
const number = (name) => (values[name] === undefined ? undefined : Number(values[name]));
const clock = () => Date.now() + (number("clock-offset-ms") ?? 0);

function storage() {
  if (!values.data) return memory();
  const isAddress = values.data.startsWith("postgres:");
  return isAddress ? postgres(new pg.Pool({ connectionString: values.data })) : openSqlite(values.data, { synchronous: values.synchronous });
}

const handler = createHandler({
  schema: JSON.parse(readFileSync(values.schema, "utf8")),
  storage: await storage(),
  // The file is read each time: a token that is taken out is withdrawn.
  authorize: values.tokens && byTokens(async () => JSON.parse(await readFile(values.tokens, "utf8")), clock),
  origins: "*",
  clock,
  retentionMs: number("retention-ms"),
  resultsMs: number("results-ms"),
  pageBytes: number("page-bytes"),
});
if (values["renew-epoch"]) await handler.renewEpoch();
await handler.purge();
const server = await serve(handler, { port: number("port"), purgeEveryMs: 60_000 });
let closed;
process.on("SIGTERM", () => void (closed ??= server.close().then(() => process.exit())));
console.log(`listening on ${server.url}`);
