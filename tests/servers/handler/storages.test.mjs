// Every storage of `escale-handler` passes the conformance suite of storages.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { CASES } from "../../../handler/src/storage/conformance.mjs";
import { postgres } from "../../../handler/src/storage/postgres.mjs";
import { kinds, startPostgres } from "./support.mjs";

const postgresql = startPostgres();
after(() => postgresql.stop());

for (const [kind, make] of await kinds(postgresql)) {
  for (const [name, check] of Object.entries(CASES)) {
    test(`${kind}: ${name}`, async (t) => check(await make(t)));
  }
}

test("PostgreSQL: a set-up that failed does not hold up the next one", async () => {
  const [first, second] = [postgresql.pool(), postgresql.pool({ statement_timeout: 5_000 })];
  await first.query("CREATE VIEW taken AS SELECT 1 AS org");
  const refused = { code: "42809" };
  await assert.rejects(postgres(first, { table: "taken" }), refused);
  await assert.rejects(postgres(second, { table: "taken" }), refused);
});
