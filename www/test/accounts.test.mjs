// Goal: the page's schema is the server's, a device gets a name that its owner knows, and each refusal says the next step.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { loader } from "./load.mjs";

const load = await loader(after);
// The class of the errors that the page's modules know.
const { EscaleError } = await load("escale");
const { schema } = await load("/src/accounts/schema.ts");
const { deviceName } = await load("/src/accounts/session.ts");
const { problemOf, problemOfCode } = await load("/src/accounts/problems.ts");

const errorOf = (code, cause) => new EscaleError({ code, kind: "S", retryable: false, message: "for developers", cure: "for developers" }, cause);

test("the schema has the rights, keys, collections and values of the server's", async () => {
  const file = new URL("../../server/examples/accounts.schema.json", import.meta.url);
  const server = JSON.parse(await readFile(file, "utf8"));
  const page = JSON.parse(JSON.stringify(schema.classes));
  assert.deepEqual(Object.keys(page), Object.keys(server));
  for (const [name, { key, collections, rights, properties, required }] of Object.entries(server)) {
    assert.deepEqual([page[name].key, page[name].collections, page[name].rights, page[name].required], [key, collections, rights, required]);
    const ofKey = Object.fromEntries(key.map((property) => [property, "string"]));
    assert.deepEqual({ ...ofKey, ...page[name].properties }, properties);
  }
});

test("a device is named after its browser and its system", () => {
  const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
  assert.equal(deviceName(chrome), "Chrome on Linux");
  assert.equal(deviceName("Mozilla/5.0 (Android 14; Mobile; rv:132.0) Gecko/132.0 Firefox/132.0"), "Firefox on Android");
  assert.equal(deviceName("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Safari/604.1"), "Safari on iPhone");
  assert.equal(deviceName(""), "Browser on a computer");
});

test("the same code has the words of its place", () => {
  const titles = ["sign-in", "recover", "inside"].map((where) => problemOf(errorOf("wrong_passphrase"), where).title);
  assert.equal(new Set(titles).size, 3);
  assert.deepEqual(problemOf(errorOf("wrong_passphrase"), "sign-in").remedies, ["recover"]);
  const away = problemOf(errorOf("wrong_passphrase", errorOf("offline")), "sign-in");
  assert.match(away.text, /server cannot be reached/);
  assert.match(problemOf(errorOf("too_many"), "sign-up").text, /ten in an hour/);
  assert.match(problemOfCode("device_revoked").text, /Sign in again/);
});

test("an error without words of its own has those of the first page, or the advice of the package", () => {
  assert.deepEqual(problemOf(errorOf("storage_full"), "sign-in").remedies, ["retry"]);
  assert.match(problemOf(errorOf("timeout"), "inside").text, /Check your connection/);
  assert.equal(problemOf(new Error("broken"), "inside").code, "internal");
});
