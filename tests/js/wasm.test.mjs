// How the wasm is found and started, and what is said when it cannot be.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { Wasm } from "../../js/dist/wasm.js";

const EMPTY = Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
const MISSING = new URL("file:///no/such/file.wasm");

function counted(url = MISSING) {
  const started = [];
  const glue = {
    default: async ({ module_or_path }) => {
      assert.ok(module_or_path instanceof WebAssembly.Module);
      started.push(module_or_path);
    },
  };
  return { wasm: new Wasm(() => glue, () => url), started };
}

const answer = (body, type, status = 200) => new Response(body, { status, headers: { "content-type": type } });

for (const [what, input] of Object.entries({
  "bytes": () => EMPTY,
  "a buffer": () => EMPTY.buffer.slice(0),
  "a module": () => new WebAssembly.Module(EMPTY),
  "a response": () => answer(EMPTY, "application/wasm"),
  "a promise of one": () => Promise.resolve(answer(EMPTY, "application/wasm; charset=x")),
  "a response of the wrong type": () => answer(EMPTY, "application/octet-stream"),
  "a data URL": () => `data:application/wasm;base64,${Buffer.from(EMPTY).toString("base64")}`,
})) {
  test(`it starts from ${what}, once`, async () => {
    const { wasm, started } = counted();
    const [one, two] = await Promise.all([wasm.start(input()), wasm.start()]);
    assert.equal(one, two);
    await wasm.start("http://nowhere.invalid/");
    assert.equal(started.length, 1);
  });
}

test("it starts from the file beside the package, where there is no fetch for files", async () => {
  const folder = await mkdtemp(join(tmpdir(), "escale-"));
  const url = pathToFileURL(join(folder, "x.wasm"));
  const { wasm, started } = counted(url);
  await assert.rejects(wasm.start(), { code: "wasm_failed", retryable: true });
  await writeFile(url, EMPTY);
  await wasm.start();
  assert.equal(started.length, 1, "a failed start can be tried again");
  await rm(folder, { recursive: true });
});

for (const [what, input, message] of [
  ["a page in its place", () => answer("<!doctype html>", "text/html"), /page that answers/],
  ["no such file", () => answer("", "text/plain", 404), /404/],
  ["a file that is cut", () => answer(EMPTY.slice(0, 6), "application/wasm"), /compile/],
  ["nothing", () => new Uint8Array(), /not a WebAssembly file/],
]) {
  test(`${what} is a named failure`, async () => {
    await assert.rejects(counted().wasm.start(input()), { code: "wasm_failed", message });
  });
}

test("what init cannot use is refused", async () => {
  await assert.rejects(counted().wasm.start(5), { code: "bad_option" });
});

test("a page that forbids wasm is told how to allow it", async (t) => {
  t.mock.method(WebAssembly, "Module", function () {
    throw new WebAssembly.CompileError("refused by the page's policy");
  });
  const { wasm } = counted();
  await assert.rejects(wasm.start(EMPTY), { code: "wasm_forbidden", cure: /'wasm-unsafe-eval'/ });
  t.mock.restoreAll();
  await wasm.start(EMPTY);
});
