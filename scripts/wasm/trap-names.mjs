// Names the functions that the message of a `panicked` error has by their numbers: `node scripts/wasm/trap-names.mjs 4711 88`.
// It reads the last build of the wasm. A build of the same release has the same functions in the same order.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const target = process.env.CARGO_TARGET_DIR ?? "target";
const names = readFileSync(join(target, "wasm-bindgen/names.txt"), "utf8").split("\n");
for (const number of process.argv.slice(2)) console.log(`${number}\t${names[Number(number)] || "no such function"}`);
const sum = createHash("sha256").update(readFileSync("pkg/escale_bg.wasm")).digest("hex");
console.log(`names of the build whose escale_bg.wasm has the SHA-256 ${sum}`);
