// The systems, in the order of a round. The first one is the reference for the others. `hasLists`: it is measured with
// documents in lists as well. `hasQueries`: its queries are measured. `hasItems`: its items are measured. `isServed`: its
// page talks to the reference server, and it is in the set of items only. `isPushed`: a server can push documents to it.
// `isBefore`: it is measured if another build of Escale is given, and its page is of that one.
export const MEASURE = "raw:plain";

export const SYSTEMS = [
  { id: MEASURE, name: "raw IndexedDB, one record a document", isEncrypted: false, hasLists: true, hasQueries: true, hasItems: true },
  { id: "raw:packed", name: "raw IndexedDB, 256 a record", isEncrypted: false },
  { id: "raw:sealed", name: "raw IndexedDB, WebCrypto a record", isEncrypted: true, hasLists: true },
  { id: "escale", name: "Escale", isEncrypted: true, hasLists: true, hasQueries: true, isPushed: true },
  { id: "escale-items", name: "Escale", isEncrypted: true, hasItems: true, isServed: true },
  { id: "escale:cold", name: "Escale, not rehearsed", isEncrypted: true, hasLists: true },
  { id: "escale:before", name: "Escale, the build before", isEncrypted: true, hasLists: true, hasQueries: true, isPushed: true, isBefore: true },
  { id: "escale:before-cold", name: "Escale, the build before, not rehearsed", isEncrypted: true, hasLists: true, isBefore: true },
  { id: "dexie", name: "Dexie", isEncrypted: false, hasLists: true, hasQueries: true, hasItems: true },
  { id: "rxdb:plain", name: "RxDB, Dexie storage", isEncrypted: false, hasQueries: true, hasItems: true },
  { id: "rxdb:encrypted", name: "RxDB, encrypted", isEncrypted: true },
  { id: "pouch:plain", name: "PouchDB", isEncrypted: false },
  { id: "pouch:encrypted", name: "PouchDB, crypto-pouch", isEncrypted: true },
  { id: "replicache", name: "Replicache", isEncrypted: false },
  { id: "tinybase", name: "TinyBase", isEncrypted: false },
  { id: "yjs", name: "Yjs, y-indexeddb", isEncrypted: false },
];
