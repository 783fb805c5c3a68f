// The systems, in the order of a round. The first one is the reference for the others.
export const MEASURE = "raw:plain";

export const SYSTEMS = [
  { id: MEASURE, name: "raw IndexedDB, one record a document", isEncrypted: false },
  { id: "raw:packed", name: "raw IndexedDB, 256 a record", isEncrypted: false },
  { id: "raw:sealed", name: "raw IndexedDB, WebCrypto a record", isEncrypted: true },
  { id: "escale", name: "Escale", isEncrypted: true },
  { id: "escale:cold", name: "Escale, not rehearsed", isEncrypted: true },
  { id: "dexie", name: "Dexie", isEncrypted: false },
  { id: "rxdb:plain", name: "RxDB, Dexie storage", isEncrypted: false },
  { id: "rxdb:encrypted", name: "RxDB, encrypted", isEncrypted: true },
  { id: "pouch:plain", name: "PouchDB", isEncrypted: false },
  { id: "pouch:encrypted", name: "PouchDB, crypto-pouch", isEncrypted: true },
  { id: "replicache", name: "Replicache", isEncrypted: false },
  { id: "tinybase", name: "TinyBase", isEncrypted: false },
  { id: "yjs", name: "Yjs, y-indexeddb", isEncrypted: false },
];
