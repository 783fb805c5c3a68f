// The setting of every example: imported before it, in a process of its own. It stands for the page and its user.
import "fake-indexeddb/auto";

const shown = [];
const store = new Map([["todos", JSON.stringify([{ id: 1, text: "Milk", done: true }, { id: 2, text: "Bread" }])]]);

/** A table of Dexie, as far as the guide reads it. */
const rows = Array.from({ length: 1_200 }, (_, n) => ({ id: n + 10, text: `text ${n}`, done: n % 2 }));
const portion = (from, length) => ({ toArray: () => Promise.resolve(rows.slice(from, from + length)) });
const table = () => ({ offset: (from) => ({ limit: (length) => portion(from, length) }) });

Object.assign(globalThis, {
  passphrase: "correct horse battery staple",
  /** One that the test has made on the server. */
  invitation: process.env.ESCALE_INVITATION,
  show: (...values) => void shown.push(...values),
  render: (docs) => void shown.push(docs),
  shown,
  localStorage: { getItem: (key) => store.get(key) ?? null, removeItem: (key) => store.delete(key) },
  openOldDatabase: () => Promise.resolve({ table, delete: () => Promise.resolve() }),
});
