// How the wasm is found and started, and the errors if that fails.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { runInNewContext } from "node:vm";

import { Wasm } from "../../js/dist/wasm/wasm.js";

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
    await Promise.all([wasm.start(input()), wasm.start()]);
    await wasm.start("http://nowhere.invalid/");
    await wasm.take("a store");
    await wasm.start();
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

test("a compiled module needs no leave to compile, and may be another program's", async (t) => {
  const module = runInNewContext("new WebAssembly.Module(bytes)", { bytes: EMPTY });
  assert.ok(!(module instanceof WebAssembly.Module));
  t.mock.method(WebAssembly, "Module", function () {
    throw new WebAssembly.CompileError("refused at the edge");
  });
  const glue = { default: async ({ module_or_path }) => assert.equal(module_or_path, module) };
  await new Wasm(() => glue, () => MISSING).start(module);
});

test("the wasm that the JavaScript carries comes before the file, and the input of init before both", async () => {
  const { wasm, started } = counted();
  let asked = 0;
  wasm.carried = async () => ((asked += 1), EMPTY);
  await wasm.start(EMPTY);
  assert.equal(asked, 0);
  const other = counted();
  other.wasm.carried = wasm.carried;
  await other.wasm.start();
  assert.deepEqual([asked, started.length, other.started.length], [1, 1, 1]);
});

/** A wasm whose instances record their end. */
function instances() {
  const made = [];
  const make = () => {
    const glue = { isOver: false, default: async () => {}, isDead: () => glue.isOver, end: async () => void (glue.isOver = true) };
    made.push(glue);
    return glue;
  };
  return { wasm: new Wasm(make, () => MISSING), made };
}

test("sessions of one store share an instance, which ends with the last of them; the next store has another", async () => {
  const { wasm, made } = instances();
  await wasm.start(EMPTY);
  const [one, two, other] = await Promise.all([wasm.take("a"), wasm.take("a"), wasm.take("b")]);
  assert.equal(one.glue, two.glue);
  assert.notEqual(one.glue, other.glue);
  one.giveBack();
  one.giveBack();
  assert.equal(one.glue.isOver, false, "the other one has it");
  two.giveBack();
  assert.equal(one.glue.isOver, true);
  assert.equal(other.glue.isOver, false);
  const next = await wasm.take("a");
  assert.notEqual(next.glue, one.glue);
  assert.equal(made.length, 3);
});

test("a store whose instance still lets go of its locks waits for that, and no other does", async () => {
  const { wasm, made } = instances();
  await wasm.start(EMPTY);
  const one = await wasm.take("a");
  let letGo;
  one.glue.end = () => new Promise((resolve) => (letGo = resolve));
  one.giveBack();
  let isTaken = false;
  const next = wasm.take("a").then((lease) => ((isTaken = true), lease));
  await wasm.take("b");
  assert.equal(isTaken, false);
  letGo();
  assert.notEqual((await next).glue, one.glue);
  assert.equal(made.length, 3);
});

test("an instance that has died is not given again", async () => {
  const { wasm } = instances();
  await wasm.start(EMPTY);
  const one = await wasm.take("a");
  one.glue.isOver = true;
  const next = await wasm.take("a");
  assert.notEqual(next.glue, one.glue);
  one.giveBack();
  assert.equal((await wasm.take("a")).glue, next.glue);
});
