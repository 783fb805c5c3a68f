/** The classes, documents and server of a rehearsal. */

import type { Adapter } from "./core.js";

/** Classes that belong to no application. */
export const sampleClasses = { Sample: { key: ["name"], collections: { kind: { key: ["kind"] } } } } as const;

const NOW = 1_700_000_100_000;
// Long enough to be worth compressing.
const text = "what a document says ".repeat(20);
const rows = [
  { pk: "E8QD73URYucI8dur4zj-2Q", v: 1_700_000_000_000, data: { name: "Zola", kind: "one", size: 7, tags: ["a", "b"], text } },
  { pk: "rTTqLRczjTnhLKKza61soQ", v: 1_700_000_000_001, data: { name: "\u00e9\u00e0\u00fc", kind: "one", size: 0.5, isNew: true, text } },
];

/** The number of documents; each of them is in both collections. */
export const SAMPLE_SIZE = rows.length;

/** A server in memory, with these two documents. */
export const sampleServer: Adapter = {
  sync: (request) => {
    const { subs } = request as { subs: [def: string, v: number][] };
    const present = rows.map(({ pk }) => pk);
    const parts = subs.map(([def, v]) => (v === 0 ? { def, rows, left: [], present } : { def, rows: [], left: [] }));
    return Promise.resolve({ p: 1, epoch: [1_600_000_000_000, "sample"], now: NOW, delta: 2_000, seq: 0, results: [], parts });
  },
};
