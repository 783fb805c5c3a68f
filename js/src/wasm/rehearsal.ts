/** Rehearses an opening in memory before the first real one, so that the browser has compiled the code by then. */

import { memoryDatabases } from "./memory-databases.js";
import { openWith } from "../session/open.js";
import { sampleSchema, sampleServer, SAMPLE_SIZE } from "./sample.js";
import type { Wasm } from "./wasm.js";

/** A rehearsal takes a few hundredths of this. One that never ends delays nobody longer. */
const LONGEST_MS = 5_000;

/** A store that belongs to nobody: its org, key and databases. */
interface Place {
  org: string;
  key: Uint8Array;
  databases: IDBFactory;
}

/** Opens a session, subscribes to two collections, reads them, and closes the session. */
async function session(wasm: Pick<Wasm, "take">, { org, key, databases }: Place): Promise<void> {
  const opened = await openWith(wasm, { org, schema: sampleSchema, server: sampleServer, key }, databases);
  try {
    const all = await opened.collection("Sample", {}).ready;
    const some = await opened.collection("Sample", { kind: "one" }).ready;
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
 * It uses its own instance of the wasm, so that its failures cannot reach a session. Instances share the compiled code.
 *
 * It fails if a session would fail: Node, for example, has no IndexedDB. It also fails without locks, because each
 * session would then first wait for other tabs.
 */
export async function rehearse(wasm: Pick<Wasm, "start" | "twin">, databases = memoryDatabases()): Promise<void> {
  if (typeof indexedDB === "undefined") throw new Error("there is no IndexedDB here");
  if (!("locks" in navigator)) throw new Error("there are no locks here");
  await wasm.start();
  const own = wasm.twin();
  const key = crypto.getRandomValues(new Uint8Array(32));
  // Tabs that rehearse at the same time share nothing, not even locks and channels.
  const place = { org: `rehearsal-${crypto.randomUUID()}`, key, databases };
  // The first session makes a store, the second opens it.
  await session(own, place);
  await session(own, place);
}

/** Like {@link rehearse}, but never fails. An error here occurs again, with its message, when a session is opened. */
export async function rehearseAhead(wasm: Pick<Wasm, "start" | "twin">): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LONGEST_MS);
  });
  await Promise.race([rehearse(wasm).catch(() => {}), late]);
  clearTimeout(timer);
}
