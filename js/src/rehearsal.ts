import { memoryDatabases } from "./memory-databases.js";
import { openWith } from "./open.js";
import { sampleSchema, sampleServer, SAMPLE_SIZE } from "./sample.js";
import type { Wasm } from "./wasm.js";

/** A rehearsal takes some hundredths of this; nobody waits for one that does not come to its end. */
const LONGEST_MS = 5_000;

/** A store of nobody's: where it is, and what opens it. */
interface Place {
  org: string;
  key: Uint8Array;
  databases: IDBFactory;
}

/** Opens a session, follows and reads two collections, and closes it. */
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
 * Runs what opening a session runs, on databases in memory: browsers compile each function when it is first called. Nothing
 * of it rests anywhere, and no server hears of it. Its instance of the wasm is its own, so that nothing that befalls it
 * befalls a session; what the engine compiles belongs to them all. Fails where a session would, as in Node, which has no
 * IndexedDB, and where there are no locks, without which each session first waits for other tabs.
 */
export async function rehearse(wasm: Pick<Wasm, "start" | "twin">, databases = memoryDatabases()): Promise<void> {
  if (typeof indexedDB === "undefined") throw new Error("there is no IndexedDB here");
  if (!("locks" in navigator)) throw new Error("there are no locks here");
  await wasm.start();
  const own = wasm.twin();
  const key = crypto.getRandomValues(new Uint8Array(32));
  // Tabs that rehearse at the same time share nothing, locks and channels included.
  const place = { org: `rehearsal-${crypto.randomUUID()}`, key, databases };
  // The first makes a store, the second opens what is there.
  await session(own, place);
  await session(own, place);
}

/** As {@link rehearse}, and never fails: what goes wrong here goes wrong again, with its message, when a session is opened. */
export async function rehearseAhead(wasm: Pick<Wasm, "start" | "twin">): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LONGEST_MS);
  });
  await Promise.race([rehearse(wasm).catch(() => {}), late]);
  clearTimeout(timer);
}
