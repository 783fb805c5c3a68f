// Every example is run: the programs of the guides, and the examples of the exports.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { makeServer } from "../../tests/e2e/support/server.mjs";
import { start } from "../../tests/servers/second.mjs";
import { surfaceOf } from "../build/surface.mjs";
import { examplesOf, exportsOf, programOf, runnable } from "./blocks.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ENTRIES = ["index", "devtools", "rehearsal", "advice"];
const SETTING = new URL("./setting.mjs", import.meta.url).href;
const SCHEMA = {
  List: { key: ["id"] },
  Todo: {
    key: ["id"],
    collections: { list: { key: ["list"], mutable: true } },
    indexes: { title: "string", done: "boolean", at: "integer", due: "integer", words: "string[]", list: "string" },
  },
  Draft: { key: ["form"] },
  Note: { key: ["id"] },
};
/** The example of accounts runs on the reference server. */
const SCHEMA_OF_ACCOUNTS = { Note: { key: ["id"] } };
/** The schemas of the guides that need more than the small server of the examples offers: they run on the reference server. */
const ON_REFERENCE = {
  "files.md": {
    Note: { key: ["id"], collections: { trip: { key: ["trip"] } }, properties: { text: "string", photo: "file", scans: "file[]" } },
  },
  "modelling.md": {
    Association: { key: ["id"], collections: { city: { key: ["city"], mutable: true } } },
    Member: { in: "Association", key: ["association", "number"], indexes: { joined: "integer" } },
    Statutes: { in: "Association", key: ["association"] },
    Membership: { key: ["person", "club"], collections: { person: { key: ["person"] } } },
  },
};
const execute = promisify(execFile);

/** The pages of the reference that have a program, with the schema of their server. */
const PAGES = { "status.md": { Note: { key: ["id"] } } };

/** The guides whose program signs up: the server takes the schema of the program itself. */
const WITH_ACCOUNTS = new Set(["assigned-to-me.md", "signing-out.md"]);

/** The schema that a program defines, in its first statements. */
function schemaIn(code) {
  const [head] = /^[^]*?defineSchema\(\{[^]*?\n\}\);/.exec(code);
  return new Function(`${head.replace(/^import .*$/gm, "").replace("defineSchema", "")}\nreturn schema;`)();
}

/** Runs a program in a process, which must end well within a minute. Gives the values that it showed. */
async function run(t, name, code, server, env = {}) {
  if (!server) {
    server = await start({ schema: SCHEMA });
    t.after(() => server.stop());
  }
  // Inside of the repository, so that "escale" is the finished package.
  const folder = await mkdtemp(join(ROOT, "target/example-"));
  t.after(() => rm(folder, { recursive: true }));
  const program = `import ${JSON.stringify(SETTING)};\n${runnable(code, { server: server.url, org: "demo" })}\n;console.log(JSON.stringify(globalThis.shown));process.exit(0);\n`;
  await writeFile(join(folder, "example.mjs"), program);
  try {
    const { stdout } = await execute(process.execPath, [join(folder, "example.mjs")], { timeout: 60_000, env: { ...process.env, ...env } });
    return JSON.parse(stdout);
  } catch (error) {
    throw new Error(`the example of ${name} failed:\n${error.stderr}\n${program}`, { cause: error });
  }
}

const guides = (await readdir(join(ROOT, "docs/guides"))).filter((name) => name.endsWith(".md"));
let programs = 0;
const codes = [];
for (const guide of guides) {
  const code = programOf(await readFile(join(ROOT, "docs/guides", guide), "utf8"));
  if (code === undefined) continue;
  programs += 1;
  codes.push(code);
  test(`the program of docs/guides/${guide} runs`, { timeout: 90_000 }, async (t) => {
    let server;
    if (guide.startsWith("from-")) {
      server = await start({ schema: schemaIn(code) });
      t.after(() => server.stop());
    }
    if (guide in ON_REFERENCE) server = await (await makeServer(t, { schema: ON_REFERENCE[guide] })).start();
    let invitation;
    if (WITH_ACCOUNTS.has(guide)) {
      server = await (await makeServer(t, { schema: schemaIn(code), options: ["--sign-up", "open"] })).start();
      invitation = await server.command("account", "--schema", server.schemaFile, "--org", "demo", "invite", "--role", "admin");
    }
    await run(t, guide, code, server, { ESCALE_INVITATION: invitation });
  });
}

for (const [page, schema] of Object.entries(PAGES)) {
  const code = programOf(await readFile(join(ROOT, "docs", page), "utf8"));
  codes.push(code);
  test(`the program of docs/${page} runs`, { timeout: 90_000 }, async (t) => {
    const server = await (await makeServer(t, { schema })).start();
    await run(t, page, code, server);
  });
}

test("the program of the skill in the package runs", { timeout: 90_000 }, async (t) => {
  const code = programOf(await readFile(join(ROOT, "js/skills/escale/SKILL.md"), "utf8"));
  const server = await (await makeServer(t, { schema: schemaIn(code) })).start();
  const shown = await run(t, "the skill", code, server);
  assert.deepEqual(shown.slice(-2), [1, 1], "the write in the world of the tests");
});

test("a program that fails, or that waits for ever, is seen", { timeout: 90_000 }, async (t) => {
  await assert.rejects(run(t, "a failure", 'throw new Error("planted")'), /planted/);
  await assert.rejects(run(t, "a promise without an end", "await new Promise(() => {});"), /a promise without an end failed/);
  await assert.rejects(run(t, "a rejection", 'void Promise.reject(new Error("planted"));await new Promise(setImmediate);'), /planted/);
});

test("the adapter of the guide to servers shows its two documents", { timeout: 90_000 }, async (t) => {
  const shown = await run(t, "own-server", programOf(await readFile(join(ROOT, "docs/guides/own-server.md"), "utf8")));
  assert.deepEqual(shown, [["Lyon", "Oslo"]]);
});

test("most guides have a program", () => assert.ok(programs >= 4, `${programs} of ${guides.length}`));

const sources = (await readdir(join(ROOT, "js/src"), { recursive: true })).filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"));
const texts = await Promise.all(sources.map((name) => readFile(join(ROOT, "js/src", name), "utf8")));
const examples = texts.flatMap(examplesOf);

/** The names that a source exports as internal: no type of the package has them. */
const internalOf = (text) => new Set([...text.matchAll(/\/\*\* @internal [^\n]*\nexport const (\w+)/g)].map(([, name]) => name));

for (const entry of ENTRIES) {
  test(`each export of the entry ${entry} has an example`, async () => {
    const file = join(ROOT, `js/src/${entry}.ts`);
    const names = await exportsOf(file);
    assert.ok(names.length > 0);
    // Those that are internal are for the other entries of the package, or for tests.
    const internal = internalOf(await readFile(file, "utf8"));
    const missing = names.filter((name) => name !== "rehearse" && !internal.has(name) && !examples.some((example) => example.name === name));
    assert.deepEqual(missing, []);
  });
}

test("each member of a session and of a list, and each option of open, is in a program that runs", () => {
  const all = [...codes, ...examples.map(({ code }) => code)].join("\n");
  const { session, list, open } = surfaceOf();
  const missing = (names, form) => names.filter((name) => !new RegExp(form.replace("NAME", name)).test(all));
  assert.ok(session.length > 20 && list.length > 3 && open.length > 10, "the types were read");
  assert.deepEqual(missing(session, "[sS]ession\\.NAME\\b"), []);
  assert.deepEqual(missing(list, "\\bNAME\\b"), []);
  assert.deepEqual(missing(open, "\\bNAME\\b"), []);
});

for (const { name, code } of examples) {
  // tests/e2e/page/devtools.test.mjs runs these in Chromium, and passkeys.test.mjs next to it uses the last one there.
  if (/^(devtools|defineDevtools|EscaleDevtools|passkeys)$/.test(name)) continue;
  test(`the example of ${name} runs`, { timeout: 90_000 }, async (t) => {
    const hasAccounts = name === "accounts";
    const server = hasAccounts ? await (await makeServer(t, { schema: SCHEMA_OF_ACCOUNTS, options: ["--sign-up", "open"] })).start() : undefined;
    await run(t, name, code, server);
  });
}
