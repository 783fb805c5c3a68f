// The command line of the kit: its exit codes, its last line, and hooks as commands and as addresses.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

import { CHECKS, PARTS, SCHEMA, schemaWithout } from "../../conformance/src/index.mjs";
import { callersOf } from "../../conformance/src/hooks.mjs";
import { ROOT } from "../e2e/support/paths.mjs";
import { plant } from "./support/faults.mjs";

const BIN = join(ROOT, "conformance/bin/escale-conformance.mjs");

async function run(...args) {
  const child = spawn(process.execPath, [BIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const [out, error, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { code, out, error, last: out.trimEnd().split("\n").at(-1) };
}

test("the exit code is 0 if nothing failed, and the last line counts", async () => {
  const { options, stop } = await plant();
  try {
    const { code, last, out } = await run(options.url, "--only", "life,epoch", "--quick");
    assert.equal(code, 0, out);
    // The watches see the answers of these checks; those of sockets see none. Two checks lack their hooks.
    assert.match(last, /^\d+ passed, 0 failed, \d+ skipped$/);
    assert.match(out, /^skip {2}epoch\.renewed: needs --renew$/m);
    assert.match(out, /^skip {2}epoch\.restored: needs --backup and --restore$/m);
  } finally {
    await stop();
  }
});

test("the exit code is 1 if a check failed, and the failure names the words, the request and the answer", async () => {
  const { options, stop } = await plant("departures are not told");
  try {
    const { code, out, last } = await run(options.url, "--only", "pull.departure", "--form", "json");
    assert.equal(code, 1);
    assert.match(last, /^\d+ passed, 1 failed, \d+ skipped$/);
    assert.match(out, /^FAIL {2}pull\.departure/m);
    assert.match(out, /docs\/protocol\.md#pull: "documents that left the collection/);
    assert.match(out, /-> POST http:.*\/sync\n(?:.*\n)*? +\{"p":1,"session"/);
    assert.match(out, /<- 200/);
    assert.match(out, /hint: Keep a membership/);
    assert.match(out, /--seed \d+/);
  } finally {
    await stop();
  }
});

test("the exit code is 1 if there is no server, and 2 for a wrong option or if nothing was checked", async () => {
  const { code, last } = await run("http://127.0.0.1:9", "--only", "life.ended");
  assert.equal(code, 1);
  assert.match(last, / 1 failed, /);
  for (const args of [["http://127.0.0.1:9", "--only", "nothing"], ["http://127.0.0.1:9", "--seed", "x"], ["nonsense"], []]) {
    assert.equal((await run(...args)).code, 2, args.join(" "));
  }
  assert.equal((await run("http://127.0.0.1:9", "--only", "restart.cursors")).code, 2);
});

test("the schema and the list of checks are printed", async () => {
  assert.deepEqual(JSON.parse((await run("schema")).out), SCHEMA);
  const list = await run("list");
  for (const { id } of CHECKS) assert.match(list.out, new RegExp(`^${id.replaceAll(".", "\\.")}$`, "m"));
  assert.match((await run("orgs", "--run", "x")).out, /^kit-x-pull-departure$/m);
});

test("the report says which parts of the schema language were not checked", async () => {
  const parts = Object.keys(PARTS);
  const schema = schemaWithout(parts);
  assert.deepEqual(JSON.parse((await run("schema", "--without", parts.join())).out), schema);
  assert.ok(Object.values(schema).every((declared) => declared.in === undefined && declared.clock === undefined), "no class of these parts");
  const { options, stop } = await plant(undefined, schema);
  try {
    const { code, out, last } = await run(options.url, "--only", "pull,items,numbers,histories,references", "--quick", "--without", parts.join());
    assert.equal(code, 0, out);
    for (const part of parts) {
      const count = CHECKS.filter((check) => check.parts.includes(part)).length;
      assert.ok(count > 10 && out.includes(`\nnot checked: ${part}, ${count} checks\n`), out);
    }
    assert.match(out, /^skip {2}items\.floor: left out by --without items$/m);
    assert.match(out, /^skip {2}numbers\.n: left out by --without items,numbers$/m);
    assert.match(last, /^\d+ passed, 0 failed, \d+ skipped$/);
    const lacking = await run(options.url, "--only", "numbers.own-tree", "--quick");
    assert.equal(lacking.code, 1, "a server that lacks a part fails unless it says so");
    assert.equal((await run(options.url, "--without", "nothing")).code, 2);
  } finally {
    await stop();
  }
});

test("a hook is a command that gets its environment, or an address that gets a POST", async () => {
  const command = `"${process.execPath}" -e "process.exit(process.env.KIT_OFFSET_MS === '-5' ? 0 : 3)"`;
  const { clock } = callersOf({ clock: command });
  await clock({ KIT_OFFSET_MS: "-5" });
  await assert.rejects(clock({ KIT_OFFSET_MS: "1" }), /ended with 3/);
  const heard = [];
  const server = createServer((request, response) => {
    heard.push(`${request.method} ${request.url}`);
    response.writeHead(request.url.startsWith("/bad") ? 500 : 204).end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}`;
  await callersOf({ clock: `${address}/clock` }).clock({ KIT_OFFSET_MS: "7" });
  await assert.rejects(callersOf({ purge: `${address}/bad` }).purge(), /answered 500/);
  assert.deepEqual(heard, ["POST /clock?KIT_OFFSET_MS=7", "POST /bad"]);
  server.close();
  server.closeAllConnections();
});
