// The programs that the commands install: from a release, whose sum is checked, otherwise from the sources. A server of
// this test has the releases, and a cargo that only notes its arguments stands for the sources.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const HOST = "x86_64-of-a-test";

const program = (path, text) => {
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
};

/** Installs `tool 1.2`: the release has these programs, and the list this sum. Resolves to the result. */
async function install(t, { programs = { tool: "echo tool 1.2" }, sum, listed = HOST, version = "1.2", answers = 200 }) {
  const folder = mkdtempSync(join(tmpdir(), "escale-tools-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const bin = join(folder, "home/bin");
  mkdirSync(bin, { recursive: true });
  mkdirSync(join(folder, "release/tool-1.2"), { recursive: true });
  for (const [name, text] of Object.entries(programs)) program(join(folder, "release/tool-1.2", name), text);
  program(join(bin, "cargo"), `echo "$@" >>"${folder}/cargo.log"`);
  program(join(bin, "rustc"), `echo "host: ${HOST}"`);
  const archive = execFileSync("tar", ["-czf", "-", "-C", join(folder, "release"), "tool-1.2"]);
  const server = createServer((request, response) => response.writeHead(request.url === "/a/tool.tar.gz" ? answers : 404).end(archive));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const right = createHash("sha256").update(archive).digest("hex");
  writeFileSync(join(folder, "tools.data"), `# comment\ntool | 1.2 | ${listed} | a/tool.tar.gz | ${sum ?? right} | tool helper\n`.replace(" helper", programs.helper ? " helper" : ""));
  const child = spawn("bash", ["-c", `. scripts/lib.sh; install_tool tool ${version}`, join(ROOT, "scripts/of-a-test")], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH, HOME: folder, CARGO_HOME: join(folder, "home"),
      TOOLS_URL: `http://127.0.0.1:${server.address().port}`, TOOLS_DATA: join(folder, "tools.data"),
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const status = await new Promise((resolve) => child.on("close", resolve));
  const log = join(folder, "cargo.log");
  return { status, output, isThere: (name) => existsSync(join(bin, name)), built: existsSync(log) ? readFileSync(log, "utf8") : "" };
}

const BUILT = "install tool --version 1.2 --locked\n";

test("a released program with the pinned sum is installed, and nothing is built", async (t) => {
  const { status, built, isThere, output } = await install(t, { programs: { tool: "echo tool 1.2", helper: "echo helper" } });
  assert.deepEqual([status, built, isThere("tool"), isThere("helper")], [0, "", true, true], output);
});

test("another sum installs nothing of the release: the program is built from its sources", async (t) => {
  const { status, built, isThere, output } = await install(t, { sum: "0".repeat(64) });
  assert.deepEqual([status, built, isThere("tool")], [0, BUILT, false]);
  assert.match(output, /has another SHA-256 than scripts\/tools.data/);
});

test("no network, no release for this host, and a release that does not run here end in a build", async (t) => {
  for (const [given, reason] of [
    [{ answers: 503 }, /was not downloaded/],
    [{ listed: "another-host" }, /no release of tool 1.2 for x86_64-of-a-test/],
    [{ programs: { tool: "exit 126" } }, /does not run here/],
    [{ programs: { tool: "echo tool", helper: "exit 126" } }, /does not run here/],
  ]) {
    const { status, built, isThere, output } = await install(t, given);
    assert.deepEqual([status, built, isThere("tool")], [0, BUILT, false], output);
    assert.match(output, reason);
  }
});

test("the list pins the versions that the commands install", () => {
  const lines = readFileSync(join(ROOT, "scripts/tools.data"), "utf8").split("\n").filter((line) => line && !line.startsWith("#"));
  const locked = /name = "wasm-bindgen"\nversion = "([^"]+)"/.exec(readFileSync(join(ROOT, "Cargo.lock"), "utf8"))[1];
  const wanted = {
    "wasm-bindgen-cli": locked,
    geckodriver: /install_tool geckodriver (\S+)/.exec(readFileSync(join(ROOT, "scripts/need-browsers"), "utf8"))[1],
  };
  assert.ok(lines.length > 0);
  for (const line of lines) {
    const [crate, version, , path, sum, programs, ...more] = line.split(" | ");
    assert.equal(version, wanted[crate], line);
    assert.ok(path.includes(version) && /^[0-9a-f]{64}$/.test(sum) && programs && more.length === 0, line);
  }
});
