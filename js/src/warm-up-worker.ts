// The worker of `warmUp`: runs what opening a session runs, on a module that the page has compiled. Threads share the code.
import type { Adapter } from "./core.js";
import { init, open, wipe } from "./package.js";
import { defineSchema } from "./schema.js";

const schema = defineSchema({ Sample: { key: ["name"], collections: { kind: { key: ["kind"] } } } });

/** Nobody's org: what rests of it is deleted at both ends. */
const OWNER = { org: "escale-warm-up", account: "sample" };

const NOW = 1_700_000_100_000;
// Long enough to be worth compressing.
const text = "what a document says ".repeat(20);
const rows = [
  { pk: "E8QD73URYucI8dur4zj-2Q", v: 1_700_000_000_000, data: { name: "Zola", kind: "one", size: 7, tags: ["a", "b"], text } },
  { pk: "rTTqLRczjTnhLKKza61soQ", v: 1_700_000_000_001, data: { name: "\u00e9\u00e0\u00fc", kind: "one", size: 0.5, isNew: true, text } },
];

const server: Adapter = {
  sync: (request) => {
    const { subs } = request as { subs: [def: string, v: number][] };
    const present = rows.map(({ pk }) => pk);
    const parts = subs.map(([def, v]) => (v === 0 ? { def, rows, left: [], present } : { def, rows: [], left: [] }));
    return Promise.resolve({ p: 1, epoch: [1_600_000_000_000, "sample"], now: NOW, delta: 2_000, seq: 0, results: [], parts });
  },
};

/** Opens a session, follows and reads two collections, and closes it. */
async function session(key: Uint8Array): Promise<void> {
  const opened = await open({ ...OWNER, schema, server, key });
  const all = await new Promise<readonly unknown[]>((resolve) => {
    opened.live("Sample", {}, (docs, { ready }) => {
      if (ready) resolve(docs);
    });
  });
  const some = await opened.collection("Sample", { kind: "one" }).ready;
  await opened.get("Sample", ["Zola"]);
  if (all.length !== rows.length || some.length !== rows.length) throw new Error("the sample is not whole");
  await opened.flush();
  await opened.close();
}

async function rehearse(module: WebAssembly.Module): Promise<void> {
  await init(module);
  await wipe(OWNER);
  const key = crypto.getRandomValues(new Uint8Array(32));
  try {
    // The first makes a store, the second opens what rests.
    await session(key);
    await session(key);
  } finally {
    await wipe(OWNER);
  }
}

addEventListener("message", ({ data }: MessageEvent<WebAssembly.Module>) => {
  rehearse(data).then(
    () => postMessage(true),
    () => postMessage(false),
  );
});
