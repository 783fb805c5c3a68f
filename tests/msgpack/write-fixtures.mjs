// Writes tests/fixtures/msgpack/*.bin with @msgpack/msgpack, as a server in JavaScript would: `node
// tests/msgpack/write-fixtures.mjs`. They are checked in; tests/wire/fixtures.rs reads them.

import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { ExtData, encode } from "@msgpack/msgpack";

import { document, small } from "./document.mjs";

const folder = fileURLToPath(new URL("../fixtures/msgpack", import.meta.url));
mkdirSync(folder, { recursive: true });

function write(name, value) {
  writeFileSync(folder + name, encode(value));
}

write("document.bin", document());
write("request.bin", {
  p: 1,
  session: "session",
  ops: [],
  subs: [
    ["Article", 0],
    ["Article@E8QD73URYucI8dur4zj-2Q", 1_700_000_000_000],
    ["Article/auteurs@BTziUq_SSySPM1Z0dmeokg", 5, "cursor"],
  ],
});
write("reply.bin", {
  p: 1,
  epoch: [1_600_000_000_000, "random"],
  now: 1_700_000_000_000,
  delta: 2_000,
  seq: 4,
  results: [],
  parts: [
    {
      def: "Article",
      rows: [
        { pk: "a", v: 7, maxLife: 28_333_333, data: encode(small()) },
        { pk: "b", v: 8, deleted: true },
      ],
      left: [["c", 9]],
      present: ["a", "d"],
      total: 3,
    },
  ],
});
write("live.bin", { token: "secret", session: "session", subs: ["Article", "Article@E8QD73URYucI8dur4zj-2Q"] });
write("hints.bin", { hints: [["Article", 1_700_000_000_001]] });
write("alive.bin", {});
write("extension.bin", { k: new ExtData(7, new Uint8Array([1, 2, 3])) });
write("timestamp.bin", { k: new Date(1_700_000_000_000) });
