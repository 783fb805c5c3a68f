// The server's binary, as it is distributed.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { test } from "node:test";

import { ROOT } from "./project.mjs";

const SERVER = process.env.ESCALE_SERVER ?? `${ROOT}/target/debug/escale-server`;

test("the server does not tell where it was built", async () => {
  const bytes = await readFile(SERVER);
  assert.ok(bytes.includes("escale-server"), "it is the server");
  const homes = ["root", "home", "Users"].map((folder) => `/${folder}/`);
  const folders = [homedir(), process.env.CARGO_HOME, process.env.RUSTUP_HOME, ROOT, ...homes];
  const places = [...folders, ".cargo/registry"].filter((place) => place !== undefined && place.length > 1);
  assert.deepEqual(places.filter((place) => bytes.includes(place)), []);
});
