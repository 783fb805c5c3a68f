// The command of the package, in a project that installed it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { makeProject, ROOT, runCommand } from "./project.mjs";

const SCHEMA = {
  Todo: {
    key: ["id"],
    collections: { list: { key: ["list"], mutable: true } },
    indexes: { done: "boolean", due: { type: "integer" } },
    required: ["list", "done"],
  },
  List: { key: ["id"], properties: { title: { type: "string", maxLength: 40 } }, required: ["title"] },
};

let project;
before(async () => {
  project = await makeProject();
  await write("schema.json", JSON.stringify(SCHEMA));
});
after(() => project.remove());

const write = (name, text) => writeFile(join(project.folder, name), text);

/** Runs `npx escale` without a shell: its exit code and both outputs. */
function escale(...args) {
  const command = join(project.folder, "node_modules/.bin/escale");
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: project.folder, encoding: "utf8" });
  return { status, stdout, stderr };
}

test("`schema check` takes a schema that can be used", () => {
  assert.deepEqual(escale("schema", "check", "schema.json"), { status: 0, stdout: "schema.json: List, Todo\n", stderr: "" });
});

test("`schema check` says of a mistake what the core says", async () => {
  await write("wrong.json", JSON.stringify({ Todo: { key: ["id"], indexes: { done: "bool" } } }));
  const { status, stdout, stderr } = escale("schema", "check", "wrong.json");
  assert.deepEqual([status, stdout], [1, ""]);
  assert.match(stderr, /^error: wrong\.json: bad_schema: class Todo: index done: type must be one of hash, string, .* boolean \(not bool\)/);
  assert.doesNotMatch(stderr, /\n {4}at /, "no stack");
  await write("broken.json", "{");
  assert.match(escale("schema", "check", "broken.json").stderr, /broken\.json is no JSON/);
  assert.match(escale("schema", "check", "none.json").stderr, /none\.json cannot be read: ENOENT/);
});

test("`schema check` names the place of a wrong rule of values", async () => {
  await write("rules.json", JSON.stringify({ List: { key: ["id"], properties: { title: { type: "string", maximum: 3 } } } }));
  const { status, stderr } = escale("schema", "check", "rules.json");
  assert.equal(status, 1);
  assert.match(stderr, /bad_schema: class List: property title: maximum is for integer, number\n/);
});

test("`schema types` writes a module, and documents have its types", async () => {
  assert.equal(escale("schema", "types", "schema.json", "--out", "classes.ts").status, 0);
  await write(
    "use.ts",
    `import { defineSchema, type Document, type Session } from "escale";
     import { classes, type List, type Todo } from "./classes.js";
     export const schema = defineSchema(classes, { migrate: {} });
     declare const session: Session<typeof classes>;
     declare const todo: Document<typeof schema, "Todo">;
     const done: boolean = todo.done; const due: number | undefined = todo.due; const list: string = todo.list;
     const same: Todo = todo; declare const one: List; const title: string = one.title;
     session.query("Todo").where("done", "==", false).orderBy("done");
     session.put("Todo", { id: "1", list: "a", done: true });
     // @ts-expect-error a boolean is compared
     session.query("Todo").where("done", "==", "false");
     // @ts-expect-error a boolean is written
     session.put("Todo", { id: "1", done: "yes" });
     // @ts-expect-error no such property
     one.name;
     void [done, due, list, same, title];`,
  );
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--lib", "es2022,dom", "--skipLibCheck", "use.ts"];
  await runCommand(project.folder, process.execPath, tsc, "--ignoreConfig", ...options);
});

test("`schema types --check` fails once the schema has changed", async () => {
  await write("later.json", JSON.stringify(SCHEMA));
  const check = () => escale("schema", "types", "later.json", "--out", "later.ts", "--check");
  assert.equal(check().status, 1, "not made yet");
  assert.equal(escale("schema", "types", "later.json", "--out", "later.ts").status, 0);
  assert.deepEqual(check(), { status: 0, stdout: "", stderr: "" });
  await write("later.json", JSON.stringify({ Todo: SCHEMA.Todo }));
  const { status, stderr } = check();
  assert.equal(status, 1);
  assert.match(stderr, /later\.ts is not made from the present later\.json\n\[Run: npx escale schema types later\.json/);
  assert.match(await readFile(join(project.folder, "later.ts"), "utf8"), /List/, "a check writes nothing");
});

test("`schema json` prints the schema of a module", async () => {
  await write(
    "schema.js",
    `import { defineSchema } from "escale"; export const schema = defineSchema(${JSON.stringify(SCHEMA)});`,
  );
  assert.deepEqual(JSON.parse(escale("schema", "json", "schema.js").stdout), SCHEMA);
  await write("empty.js", "export const other = 1;");
  assert.match(escale("schema", "json", "empty.js").stderr, /exports no `schema` and no `classes`/);
});

test("a wrong command is answered with the help", () => {
  assert.match(escale("--help").stdout, /npx escale schema types FILE/);
  for (const args of [[], ["schema"], ["schema", "check"], ["schema", "toString", "x"], ["schema", "check", "a", "b"]]) {
    const { status, stderr } = escale(...args);
    assert.equal(status, 1);
    assert.match(stderr, /npx escale schema check FILE/, args.join(" "));
  }
  assert.match(escale("schema", "check", "schema.json", "--nonsense").stderr, /^error: Unknown option/);
});
