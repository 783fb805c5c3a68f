// The command `npm create escale`: the files that it writes, the folders that it refuses, and the package of the server.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { TEMPLATES } from "../../../create/app.mjs";
import { binary, platform, start } from "../../../create/server/index.mjs";
import { ROOT, runCommand } from "../project.mjs";

const COMMAND = join(ROOT, "create/index.mjs");
const SERVER = process.env.ESCALE_SERVER ?? join(ROOT, "target/debug/escale-server");

let parent;
before(async () => {
  parent = await mkdtemp(join(tmpdir(), "escale-create-"));
});
after(() => rm(parent, { recursive: true }));

/** Runs the command without a shell: its exit code and both outputs. */
function create(args, input = "") {
  const { status, stdout, stderr } = spawnSync(process.execPath, [COMMAND, ...args], { cwd: parent, encoding: "utf8", input });
  return { status, stdout, stderr };
}

const read = (path) => readFile(join(parent, path), "utf8");

for (const template of TEMPLATES) {
  test(`${template}: every file is written, and the types check`, async () => {
    const name = `app-${template}`;
    const { status, stdout, stderr } = create([name, "--template", template]);
    assert.deepEqual([status, stderr], [0, ""]);
    assert.match(stdout, new RegExp(`cd ${name}\n +npm install\n +npm run dev`));
    const files = await readdir(join(parent, name));
    const expected = [".env", ".gitignore", "README.md", "index.html", "package.json", "public", "schema.json", "scripts", "src", "tsconfig.json", "vite.config.ts"];
    assert.deepEqual(files.sort(), expected);
    assert.match(await read(`${name}/.gitignore`), /^node_modules$/m);
    assert.match(await read(`${name}/README.md`), new RegExp(`^# ${name}\n`));
    assert.match(await read(`${name}/index.html`), /^<!doctype html>[^]*<body>\n {4}<h1>To do<\/h1>\n {4}<[^]* src="\/src\/main\.tsx?"><\/script>\n {2}<\/body>\n<\/html>\n$/);
    const manifest = JSON.parse(await read(`${name}/package.json`));
    assert.equal(manifest.name, name);
    assert.equal(manifest.dependencies.escale, manifest.devDependencies["escale-server"]);
    await symlink(join(ROOT, "node_modules"), join(parent, name, "node_modules"));
    await runCommand(join(parent, name), process.execPath, join(ROOT, "node_modules/typescript/bin/tsc"));
    const check = ["schema", "types", "schema.json", "--out", "src/classes.ts", "--check"];
    await runCommand(join(parent, name), process.execPath, join(ROOT, "pkg/cli.js"), ...check);
  });
}

/** Runs the template's `run.mjs` with a server and a Vite that only print how they are called, on this input. */
async function runScript(t, args, input, description = {}) {
  const folder = await mkdtemp(join(tmpdir(), "escale-run-"));
  t.after(() => rm(folder, { recursive: true }));
  const fakes = {
    "escale-server": `export const start = async (options) => (console.log(["server up", ...options.slice(6)].join(" ")), { ended: new Promise(() => {}), stop: async () => console.log("server down") });`,
    vite: `const say = (what) => (options) => (console.log(what, JSON.stringify(options)), { listen: () => ({ printUrls() {} }), printUrls() {} });
      export const [createServer, preview, build] = [say("page"), say("preview"), async () => {}];`,
  };
  for (const [name, code] of Object.entries(fakes)) {
    await mkdir(join(folder, "node_modules", name), { recursive: true });
    await writeFile(join(folder, "node_modules", name, "package.json"), JSON.stringify({ name, type: "module", exports: "./index.js" }));
    await writeFile(join(folder, "node_modules", name, "index.js"), code);
  }
  await cp(join(ROOT, "create/template/common/scripts/run.mjs"), join(folder, "run.mjs"));
  await writeFile(join(folder, "package.json"), JSON.stringify(description));
  const { status, stdout, stderr } = spawnSync(process.execPath, ["run.mjs", ...args], { cwd: folder, encoding: "utf8", input });
  return { status, lines: stdout.trim().split("\n"), stderr };
}

test("`npm run dev` passes the port to Vite, and refuses an option that it does not know", async (t) => {
  const { lines } = await runScript(t, ["dev", "--port", "5199", "--host", "0.0.0.0"], "");
  assert.equal(lines[1], `page {"server":{"port":5199,"host":"0.0.0.0","strictPort":true}}`);
  assert.equal((await runScript(t, ["preview", "--port=5199"], "")).lines[1], `preview {"preview":{"port":5199,"strictPort":true}}`);
  assert.equal((await runScript(t, ["dev"], "")).lines[1], `page {"server":{"strictPort":false}}`);
  for (const args of [["--prot", "5199"], ["--port", "many"], ["--port", "65536"], ["--port"]]) {
    const { status, stderr, lines: [first] } = await runScript(t, ["dev", ...args], "");
    assert.deepEqual([status, first], [1, ""], args.join(" "));
    assert.match(stderr, /^error: .*--p(or|ro)t.*The options are --port NUMBER, --host ADDRESS and --open\.\n$/);
  }
});

test("Return stops the development server and starts it, and the end of the input does neither", async (t) => {
  const said = ({ lines }) => lines.filter((line) => line.startsWith("server"));
  assert.deepEqual(said(await runScript(t, ["dev"], "")), ["server up"]);
  assert.deepEqual(said(await runScript(t, ["dev"], "no line")), ["server up"]);
  assert.deepEqual(said(await runScript(t, ["dev"], "\n")), ["server up", "server down"]);
  assert.deepEqual(said(await runScript(t, ["dev"], "\n\n")), ["server up", "server down", "server up"]);
  const described = { escale: { server: ["--sign-up", "open"] } };
  assert.deepEqual(said(await runScript(t, ["dev"], "", described)), ["server up --sign-up open"], "with the options of package.json");
});

test("the server takes the template's schema", async (t) => {
  const data = join(parent, "data");
  process.env.ESCALE_SERVER = SERVER;
  t.after(() => delete process.env.ESCALE_SERVER);
  const schema = join(ROOT, "create/template/common/schema.json");
  const server = await start(["--schema", schema, "--data", data, "--listen", "127.0.0.1:0"]);
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+$/);
  await server.stop();
  await assert.rejects(start(["--schema", "none.json", "--data", data]), { code: "server_ended" });
});

test("a folder that is not empty is refused, and stays as it is", async () => {
  await mkdir(join(parent, "full"));
  await writeFile(join(parent, "full/notes.txt"), "mine");
  const { status, stderr } = create(["full", "--yes"]);
  assert.equal(status, 1);
  assert.match(stderr, /^error: \S+full is not empty\n\[Choose a new folder, or move these files away: nothing is overwritten\]\n$/);
  assert.deepEqual(await readdir(join(parent, "full")), ["notes.txt"]);
  assert.match(create(["full/notes.txt", "--yes"]).stderr, /notes\.txt is a file\n\[Choose another name/);
});

test("a folder that is empty, or has only its repository, is taken", async () => {
  await mkdir(join(parent, "fresh/.git"), { recursive: true });
  assert.equal(create(["fresh", "--yes"]).status, 0);
  assert.equal(JSON.parse(await read("fresh/package.json")).name, "fresh");
});

test("a name that no package can have is refused", async () => {
  const before = await readdir(parent);
  for (const name of ["My-App", "my app", ".hidden", "a/@b", "caf\u00e9", "x".repeat(215), "escale", "vite", "react", "node_modules"]) {
    const { status, stderr } = create([name, "--yes"]);
    assert.equal(status, 1, name);
    assert.match(stderr, /^error: ".*" (cannot be the name of a package\n\[Use lower case|is the name of another package\n\[Choose another)/, name);
  }
  assert.deepEqual(await readdir(parent), before);
});

test("a wrong argument is refused before any question", async () => {
  assert.match(create(["a", "--template", "cobol"]).stderr, /there is no template "cobol"\n\[Choose one of: react, react-accounts, vanilla\]/);
  assert.match(create(["a", "b"]).stderr, /more than one folder/);
  assert.match(create(["a", "--nonsense"]).stderr, /^error: Unknown option .*\n\[See: npm create escale -- --help\]/);
  assert.match(create(["a", "--yes", "--from", parent]).stderr, /has no tarball of escale \d+\.\d+\.\d+\n\[Run `make create`/);
  assert.match(create(["--help"]).stdout, /npm create escale \[FOLDER\]/);
});

test("it asks for the rest, and input that ends is no answer", async () => {
  const { status, stdout } = create([], "asked\nvanilla\n");
  assert.equal(status, 0);
  assert.match(stdout, /Folder \[escale-app\]: .*Template \(react, react-accounts, vanilla\) \[react\]: /s);
  assert.ok(!("react" in JSON.parse(await read("asked/package.json")).dependencies));
  const silent = create([]);
  assert.equal(silent.status, 1);
  assert.match(silent.stderr, /there is nobody to ask\n\[Give the folder and --template, or --yes\]/);
});

test("a platform without a package of the server is a named error with its cure", () => {
  const on = (system, arch, glibcVersionRuntime) => platform({ platform: system, arch, report: { getReport: () => ({ header: { glibcVersionRuntime } }) } });
  assert.deepEqual([on("linux", "x64", "2.36"), on("linux", "x64"), on("darwin", "arm64")], ["linux-x64-gnu", "linux-x64-musl", "darwin-arm64"]);
  for (const other of ["linux-x64-musl", "darwin-arm64", "win32-x64"]) {
    assert.throws(() => binary(other), { code: "no_server_binary", cure: /cargo install --locked --path server/ });
  }
  const missing = () => {
    throw new Error("not found");
  };
  assert.throws(() => binary("linux-x64-gnu", missing), { code: "no_server_binary", message: /@escale\/server-linux-x64-gnu is not installed/ });
  assert.equal(binary("linux-x64-gnu", (name) => `there/${name}`), "there/@escale/server-linux-x64-gnu/escale-server");
});

test("the command of the server passes on arguments, output and exit code", () => {
  const run = (server, ...args) =>
    spawnSync(process.execPath, [join(ROOT, "create/server/command.mjs"), ...args], { encoding: "utf8", env: { ...process.env, ESCALE_SERVER: server } });
  assert.match(run(SERVER, "--version").stdout, /^escale-server \d/);
  assert.equal(run(SERVER, "nonsense").status, 2);
  const none = run(join(parent, "nowhere"), "--version");
  assert.equal(none.status, 1);
  assert.match(none.stderr, /^error: no_server_binary: ESCALE_SERVER names .*nowhere, which does not exist/);
});

test("all packages have the version of the core", async () => {
  const [, version] = /^version = "(.*)"$/m.exec(await readFile(join(ROOT, "Cargo.toml"), "utf8"));
  for (const file of ["create/package.json", "create/server/package.json"]) {
    const manifest = JSON.parse(await readFile(join(ROOT, file), "utf8"));
    assert.deepEqual([manifest.version, ...Object.values(manifest.optionalDependencies ?? {})].filter((own) => own !== version), [], file);
  }
});
