// A page for the tests of the bindings: the globals of a browser, a session on a core without wasm, a count of leaks.
import { Window } from "happy-dom";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, settled } from "../fake-core.mjs";

const window = new Window({ url: "http://localhost/" });
for (const name of ["window", "document", "navigator", "HTMLElement", "HTMLIFrameElement", "Element", "Node", "Text", "Comment", "SVGElement", "Event", "CustomEvent", "MutationObserver"]) {
  Object.defineProperty(globalThis, name, { configurable: true, writable: true, value: name === "window" ? window : window[name] });
}

export const schema = defineSchema({
  Package: { key: ["name"], collections: { section: { key: ["section"] } }, indexes: { size: "integer" } },
  File: { in: "Package", key: ["package", "name"] },
});

/** Gives the core a package with two files, completely loaded. */
export function putPackage(core) {
  core.put(defOf({ key: ["a"] }), { name: "a" });
  core.put('File/{"package":"a"}', { package: "a", name: "x" }, { package: "a", name: "y" });
  core.becomeReady(defOf({ key: ["a"] }));
  core.becomeReady('File/{"package":"a"}');
}

/** A document with its files, as text. */
export const treeText = ({ doc, items, ready }) => `${doc?.name} ${items.File.map(({ name }) => name)} ${ready}`;

/** The def of a match, as the fake core names it. */
export const defOf = (match) => `Package/${JSON.stringify(match)}`;

/** A session, its core, and the number of callbacks of its status, its refused list and its core's watches. */
export async function opened(options) {
  const { session, core } = await openFake(schema, options);
  let listeners = 0;
  for (const source of [session.status, session.refused]) {
    const subscribe = source.subscribe.bind(source);
    source.subscribe = (callback) => {
      const stop = subscribe(callback);
      let isOn = true;
      listeners++;
      return () => {
        if (isOn) listeners--;
        isOn = false;
        stop();
      };
    };
  }
  const watches = () => core.called("watch") - core.called("unwatch");
  return { session, core, listeners: () => listeners + watches() };
}

/** Lets all that is due run, with the timers of held subscriptions that stay for no time. */
export async function idle() {
  for (let turn = 0; turn < 5; turn++) {
    await settled();
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}

/** An element of the page to render into. */
export function place() {
  return window.document.body.appendChild(window.document.createElement("div"));
}
