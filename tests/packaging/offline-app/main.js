// An application that lists documents. Nothing in it is about opening without a network.
import { defineSchema, init, open } from "escale";

import { version } from "./version.js";

document.getElementById("version").textContent = version;

const server = {
  async sync(request) {
    const response = await fetch("/api/sync", { method: "POST", body: JSON.stringify(request) });
    return await response.text();
  },
};
const schema = defineSchema({ Note: { key: ["id"] } });

async function start() {
  await init();
  performance.mark("wasm");
  const session = await open({ org: "offline", schema, server, passphrase: "correct horse" });
  window.session = session;
  session.live("Note", {}, (notes, { ready }) => {
    const list = document.getElementById("docs");
    list.replaceChildren(...notes.map(({ id }) => Object.assign(document.createElement("li"), { textContent: id })));
    list.dataset.ready = ready;
    // By the clock of the page: from its navigation to its first list.
    if (notes.length > 0) list.dataset.took ??= performance.now();
  });
}

start();
// For the tests: files that the page loads later. The plugin has registered the worker: this gives the same object.
window.offline = async () => (await import("escale/offline")).register();
window.later = async () => (await import("./later.js")).version;
window.unhashed = async () => (await fetch("./version.txt")).text();
