// Runs in a page, bundled with React's build for development: a component with every hook, in StrictMode, which mounts
// everything twice. It counts the listeners that the session has.
import { defineSchema, open } from "escale";
import { createHooks } from "escale/react";
import { createElement, StrictMode, useState } from "react";
import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";

import { makePageServer } from "./page-server.js";

const schema = defineSchema({ Note: { key: ["id"], collections: { list: { key: ["list"] } }, indexes: { at: "integer" } } });
const { EscaleProvider, useLive, useDocument, useQuery, useStatus, usePending, useRefused } = createHooks();

/** The listeners that the session has for components. */
let listeners = 0;

/** Counts the listeners of a function that subscribes. */
function counted(subscribe) {
  return (callback) => {
    const stop = subscribe(callback);
    let isOver = false;
    listeners++;
    return () => {
      if (!isOver) listeners--;
      isOver = true;
      stop();
    };
  };
}

function watch(session) {
  for (const value of [session.status, session.refused]) value.subscribe = counted(value.subscribe.bind(value));
  const collection = session.collection.bind(session);
  session.collection = (...args) => {
    const list = collection(...args);
    return Object.create(list, { subscribe: { value: counted(list.subscribe) } });
  };
}

function Notes() {
  const options = { keep: 0 };
  const { docs } = useLive("Note", { list: "a" }, options);
  const { doc } = useDocument("Note", ["n1"], options);
  const latest = useQuery((session) => session.query("Note").orderBy("at", "desc").limit(3), []);
  const status = useStatus();
  const [pending, refused] = [usePending(), useRefused()];
  return createElement("p", undefined, `${docs.length} ${doc?.id} ${latest.docs.length} ${status?.phase} ${pending.length} ${refused.length}`);
}

/** Opens a session with some notes, and renders a page that shows them on demand. */
export async function begin() {
  const session = await open({ org: "mounts", schema, server: makePageServer(schema).adapter, key: new Uint8Array(32) });
  for (let n = 0; n < 5; n++) await session.put("Note", { id: `n${n}`, list: "a", at: n }).accepted;
  watch(session);
  let show;
  function App() {
    const [isShown, setShown] = useState(false);
    show = setShown;
    return isShown ? createElement(Notes) : undefined;
  }
  const tree = createElement(EscaleProvider, { session }, createElement(App));
  const root = createRoot(document.body.appendChild(document.createElement("main")));
  flushSync(() => root.render(createElement(StrictMode, undefined, tree)));
  return {
    session,
    show: (isShown) => flushSync(() => show(isShown)),
    figures: () => ({ listeners, subscriptions: session.subscriptions().length }),
  };
}
