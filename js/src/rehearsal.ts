/** The entry `escale/rehearsal`: an opening in memory before the first real one, for pages that ask `init` for it. */

// The same module as the application's "escale", also in the package.
import { defineSchema } from "./index.js";
import type { OpenInMemory } from "./package.js";
import { memoryDatabases } from "./wasm/memory-databases.js";
import { sampleClasses, sampleServer, SAMPLE_SIZE } from "./wasm/sample.js";

/** A rehearsal takes a few hundredths of this. One that never ends delays nobody longer. */
const LONGEST_MS = 5_000;

const schema = /* @__PURE__ */ defineSchema(sampleClasses);

/** Opens a session, subscribes to two collections, reads them, and closes the session. */
async function session(open: OpenInMemory, org: string, key: Uint8Array, databases: IDBFactory): Promise<void> {
  const opened = await open({ org, schema, server: sampleServer, key }, databases);
  try {
    const all = await opened.collection("Sample", {}).whenReady();
    const some = await opened.collection("Sample", { kind: "one" }).whenReady();
    await opened.get("Sample", ["Zola"]);
    if (all.length !== SAMPLE_SIZE || some.length !== SAMPLE_SIZE) throw new Error("the sample is not whole");
    await opened.flush();
  } finally {
    await opened.close();
  }
}

/**
 * Runs the code of opening a session, on databases in memory, because browsers compile each function at its first call.
 * It stores nothing, and contacts no server.
 *
 * It fails if a session would fail: Node, for example, has no IndexedDB. It also fails without locks, because each
 * session would then first wait for other tabs.
 *
 * @internal
 */
export async function rehearse(open: OpenInMemory, databases = memoryDatabases()): Promise<void> {
  if (typeof indexedDB === "undefined") throw new Error("there is no IndexedDB here");
  if (!("locks" in navigator)) throw new Error("there are no locks here");
  const key = crypto.getRandomValues(new Uint8Array(32));
  // Tabs that rehearse at the same time share nothing, not even locks and channels.
  const org = `rehearsal-${crypto.randomUUID()}`;
  // The first session makes a store, the second opens it.
  await session(open, org, key, databases);
  await session(open, org, key, databases);
}

/**
 * Rehearses an opening in memory: `await init(undefined, { rehearsal })`.
 *
 * Browsers compile each function at its first call, which is a large part of the cost of a first opening. On a desktop
 * the rehearsal takes less than a tenth of a second of the page's thread, in pieces with pauses for the page. While the
 * page waits, for a passphrase for example, it saves a third to a half of the first `open`'s time.
 *
 * It never fails. An error in it occurs again, with its message, when a session is opened.
 *
 * @example
 * ```js
 * import { init } from "escale";
 * import { rehearsal } from "escale/rehearsal";
 *
 * await init(undefined, { rehearsal });
 * ```
 */
export async function rehearsal(open: OpenInMemory): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LONGEST_MS);
  });
  await Promise.race([rehearse(open).catch(() => {}), late]);
  clearTimeout(timer);
}
