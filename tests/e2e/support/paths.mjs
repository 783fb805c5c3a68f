// Paths of programs, and folders that are removed with their test.
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
export const PACKAGES = join(ROOT, "data/packages.jsonl.gz");
const SCHEMA = JSON.parse(readFileSync(join(ROOT, "server/examples/packages.schema.json"), "utf8"));
/** The schema of the demonstration, without the properties that it requires: tests may leave them out. */
export const PACKAGES_SCHEMA = Object.fromEntries(
  Object.entries(SCHEMA).map(([name, declared]) => [name, { ...declared, required: undefined }]),
);
export const SERVER = process.env.ESCALE_SERVER ?? join(ROOT, "target/debug/escale-server");
/** The example server that has an application-defined operation. */
export const COUNTER_SERVER = join(dirname(SERVER), "examples/counter");
export const CHROME = process.env.CHROME || "/usr/bin/chromium";
export const FIREFOX = process.env.FIREFOX || "/usr/bin/firefox-esr";

/** A new folder; it is removed after the test `t`. */
export async function folderFor(t) {
  const folder = await mkdtemp(join(tmpdir(), "escale-e2e-"));
  // A browser that was just closed may still write its last file.
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}
