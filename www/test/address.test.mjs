// Goal: the server's address follows the page's, and `?server=` takes web addresses only.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { loader } from "./load.mjs";

const load = await loader(after);
const { ACCOUNTS_PORT, queryOfOther, serverAddress } = await load("/src/server-address.ts");
const { bytes } = await load("/src/format.ts");

test("port 7700 of the machine that serves the page", () => {
  assert.equal(serverAddress(new URL("http://localhost:7800/")), "http://localhost:7700");
  assert.equal(serverAddress(new URL("http://127.0.0.1:7800/?x=1")), "http://127.0.0.1:7700");
  assert.equal(serverAddress(new URL("http://[::1]:7800/")), "http://[::1]:7700");
  assert.equal(serverAddress(new URL("https://demo.example/")), "https://demo.example:7700");
});

test("?server= where it is a web address", () => {
  assert.equal(serverAddress(new URL("http://localhost/?server=http://localhost:9000")), "http://localhost:9000");
  assert.equal(serverAddress(new URL("http://localhost/?server=javascript:alert(1)")), "http://localhost:7700");
  assert.equal(serverAddress(new URL("http://localhost/?server=nonsense")), "http://localhost:7700");
});

test("the page of accounts proposes the port after it", () => {
  assert.equal(serverAddress(new URL("http://localhost:7800/accounts/"), ACCOUNTS_PORT), "http://localhost:7701");
});

test("a link to the other page follows a chosen server to its neighbour", () => {
  assert.equal(queryOfOther(new URL("http://localhost:7800/"), 1), "");
  assert.equal(queryOfOther(new URL("http://localhost:7800/?server=nonsense"), 1), "");
  assert.equal(queryOfOther(new URL("http://localhost:7800/?server=https://demo.example"), 1), "");
  const query = queryOfOther(new URL("http://localhost:7800/?server=http://localhost:7710"), 1);
  assert.equal(new URLSearchParams(query).get("server"), "http://localhost:7711");
  assert.equal(new URLSearchParams(queryOfOther(new URL(`http://localhost/accounts/${query}`), -1)).get("server"), "http://localhost:7710");
});

test("sizes read in binary units", () => {
  assert.deepEqual([0, 1023, 1024, 28591 * 1024, 250 * 1024].map(bytes), ["0 B", "1,023 B", "1.0 KiB", "27.9 MiB", "250 KiB"]);
});
