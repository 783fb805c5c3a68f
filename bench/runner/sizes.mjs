// W8: the bytes that a page loads for each system: minified, with gzip and brotli, wasm included.
import { readFile } from "node:fs/promises";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The imports of an application. */
const ENTRIES = {
  escale: 'export { EscaleError, defineSchema, init, open } from "escale";',
  dexie: 'export { default } from "dexie";',
  "rxdb:plain": 'export { createRxDatabase } from "rxdb"; export { getRxStorageDexie } from "rxdb/plugins/storage-dexie";',
  "rxdb:encrypted":
    'export { createRxDatabase } from "rxdb"; export { getRxStorageDexie } from "rxdb/plugins/storage-dexie";' +
    'export { wrappedKeyEncryptionCryptoJsStorage } from "rxdb/plugins/encryption-crypto-js";' +
    'export { replicateRxCollection } from "rxdb/plugins/replication";',
  "pouch:plain": 'export { default } from "pouchdb-browser";',
  "pouch:encrypted": 'export { default } from "pouchdb-browser"; export { default as crypto } from "crypto-pouch";',
  replicache: 'export { Replicache } from "replicache";',
  tinybase: 'export { createIndexes, createStore } from "tinybase"; export { createIndexedDbPersister } from "tinybase/persisters/persister-indexed-db";',
  yjs: 'export * from "yjs"; export { IndexeddbPersistence } from "y-indexeddb";',
};

const sizesOf = (parts) => {
  const sum = (of) => parts.reduce((bytes, part) => bytes + of(part).length, 0);
  const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
  return {
    minified: sum((part) => part),
    gzip: sum((part) => gzipSync(part, { level: 9 })),
    brotli: sum((part) => brotliCompressSync(part, brotli)),
  };
};

async function bundle(source) {
  const result = await build({
    configFile: here("../vite.config.js"),
    root: here(".."),
    logLevel: "error",
    plugins: [
      {
        name: "entry",
        enforce: "pre",
        resolveId: (id) => (id === "bench-entry" ? here("../bench-entry.js") : undefined),
        load: (id) => (id === here("../bench-entry.js") ? source : undefined),
      },
    ],
    build: {
      write: false,
      emptyOutDir: false,
      minify: true,
      rolldownOptions: { input: "bench-entry", preserveEntrySignatures: "strict", output: { codeSplitting: false } },
    },
  });
  return result.output.filter(({ fileName }) => fileName.endsWith(".js")).map(({ code }) => Buffer.from(code));
}

/** Bytes of each system, by its id. */
export async function sizes() {
  const found = {};
  for (const [id, source] of Object.entries(ENTRIES)) {
    const parts = await bundle(source);
    if (id === "escale") parts.push(await readFile(here("../../pkg/escale_bg.wasm")));
    found[id] = sizesOf(parts);
  }
  return found;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(JSON.stringify(await sizes(), null, 1));
