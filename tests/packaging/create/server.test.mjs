// The server's binary, as it is distributed. It is not the one of the other tests, which is built for them.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { test } from "node:test";

import { ROOT } from "../project.mjs";

const SERVER = `${process.env.CARGO_TARGET_DIR ?? `${ROOT}/target`}/release/escale-server`;

test("the server does not tell where it was built", async () => {
  const bytes = await readFile(SERVER);
  assert.ok(bytes.includes("escale-server"), "it is the server");
  const homes = ["root", "home", "Users"].map((folder) => `/${folder}/`);
  const folders = [homedir(), process.env.CARGO_HOME, process.env.RUSTUP_HOME, ROOT, ...homes];
  const places = [...folders, ".cargo/registry"].filter((place) => place !== undefined && place.length > 1);
  assert.deepEqual(places.filter((place) => bytes.includes(place)), []);
});
