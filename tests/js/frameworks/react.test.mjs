// The hooks of `escale/react` in React itself: StrictMode, Suspense, errors, sessions that come and go, servers.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defOf, idle, opened, place, putPackage, treeText } from "./page.mjs";

const { Component, createElement: h, StrictMode, Suspense, act } = await import("react");
const { createRoot } = await import("react-dom/client");
const { createHooks } = await import("../../../js/dist/react.js");

globalThis.IS_REACT_ACT_ENVIRONMENT = true;

const { EscaleProvider, useCount, useDocument, useLive, usePending, useQuery, useRefused, useSession, useStatus } = createHooks();
const games = { section: "games" };
const text = ({ docs, ready, error }) => `${docs.map(({ name }) => name)} ${ready} ${error?.code}`;
const List = ({ match = games, ...options }) => h("p", null, text(useLive("Package", match, { keep: 0, ...options })));

/** Renders, and lets the session and React come to rest. */
async function shown(root, element) {
  await act(async () => {
    root.render(element);
    await idle();
  });
}

function begun() {
  const element = place();
  const root = createRoot(element);
  return { root, text: () => element.textContent };
}

test("a list shows the documents at hand, and each change", async () => {
  const { session, core } = await opened();
  const page = begun();
  await shown(page.root, h(EscaleProvider, { session }, h(List)));
  assert.equal(page.text(), " false undefined");
  await act(async () => (core.put(defOf(games), { name: "b" }, { name: "a" }), core.becomeReady(defOf(games)), await idle()));
  assert.equal(page.text(), "a,b true undefined");
  // The same match by another object, and a second component: no second subscription.
  const seen = [];
  const Watching = () => (seen.push(text(useLive("Package", { section: "games" }, { keep: 0 }))), null);
  await shown(page.root, h(EscaleProvider, { session }, h(List, { match: { section: "games" } }), h(Watching)));
  assert.equal(core.called("subscribe"), 1);
  assert.equal(seen[0], "a,b true undefined", "at hand in the first rendering");
  await shown(page.root, null);
});

test("a document has its items, and a query its count", async () => {
  const { session, core } = await opened();
  const page = begun();
  const All = () => {
    const { count, ready } = useCount((given) => given.query("Package"), []);
    return `${treeText(useDocument("Package", ["a"], { items: ["File"], keep: 0 }))} ${count} ${ready}`;
  };
  await shown(page.root, h(StrictMode, null, h(EscaleProvider, { session }, h(All))));
  assert.match(page.text(), /^undefined {2}false 0 /);
  await act(async () => (putPackage(core), core.put("Package", { name: "c" }, { name: "b" }), await idle()));
  assert.match(page.text(), /^a x,y true 2 /);
  await shown(page.root, null);
  await idle();
  assert.deepEqual(session.subscriptions(), ["Package"], "which the core itself holds");
});

test("1,000 mounts and unmounts in StrictMode leave no subscription, no listener, no growth", async () => {
  const { session, core, listeners } = await opened();
  const All = ({ n }) => {
    useLive("Package", { section: `s${n}` }, { keep: 0 });
    useDocument("Package", [`p${n}`], { keep: 0 });
    useQuery((given) => given.query("Package").where("size", ">", n), [n]);
    return [useStatus().phase, usePending().length, useRefused().length, useSession().subscriptions().length].join();
  };
  const page = begun();
  const idleListeners = listeners();
  for (let n = 0; n < 1_000; n++) {
    await act(async () => page.root.render(h(StrictMode, null, h(EscaleProvider, { session }, h(All, { n })))));
    await act(async () => page.root.render(null));
  }
  await idle();
  assert.ok(core.called("subscribe") >= 2_000);
  assert.deepEqual(session.subscriptions(), []);
  assert.equal(listeners(), idleListeners);
  assert.ok(core.called("unsubscribe") >= 2_000);
  assert.equal(page.text(), "");
});

test("a component that leaves during the load leaves no subscription", async () => {
  const { session, core } = await opened();
  const page = begun();
  core.isHolding = true;
  await shown(page.root, h(StrictMode, null, h(EscaleProvider, { session }, h(List))));
  await act(async () => (core.put(defOf(games), { name: "a" }), await idle()));
  assert.equal(page.text(), " false undefined", "the read is under way");
  await shown(page.root, null);
  core.release();
  await idle();
  assert.deepEqual(session.subscriptions(), []);
});

test("refusals, avion and the bound of subscriptions are errors of the result", async () => {
  const { session, core } = await opened();
  const page = begun();
  await shown(page.root, h(EscaleProvider, { session }, h(List)));
  const fault = { code: "forbidden", kind: "S", retryable: false, message: "x", cure: "y" };
  await act(async () => core.tell({ faults: { [defOf(games)]: fault } }));
  assert.equal(page.text(), " false forbidden");
  await act(async () => core.tell({ faults: {}, mode: "avion" }));
  assert.equal(page.text(), " false not_loaded");
  await act(async () => core.tell({ mode: "synced" }));
  assert.equal(page.text(), " false undefined");
  for (let n = 1; n < 1_000; n++) session.live("Package", { section: `s${n}` }, () => {});
  await shown(page.root, h(EscaleProvider, { session }, h(List, { match: { section: "one more" } }), h(List)));
  assert.equal(page.text(), " false too_many_subscriptions false undefined");
  await shown(page.root, null);
});

test("a session that is locked under the hooks is their error, and another one takes over", async () => {
  const first = await opened();
  const second = await opened();
  const page = begun();
  const All = () => [h(List, { key: 1 }), useStatus().phase, usePending().length, useRefused().length];
  await shown(page.root, h(EscaleProvider, { session: first.session }, h(All)));
  await act(async () => (await first.session.lock(), await idle()));
  assert.equal(page.text(), " false closedclosed00");
  await shown(page.root, h(EscaleProvider, { session: second.session }, h(All)));
  await act(async () => (second.core.put(defOf(games), { name: "z" }), second.core.becomeReady(defOf(games)), await idle()));
  assert.equal(page.text(), "z true undefinedlive00");
  await shown(page.root, h(EscaleProvider, { session: first.session }, h(All)));
  assert.equal(page.text(), " false closedclosed00", "rendered with a session that is closed already");
  await idle();
  assert.deepEqual(second.session.subscriptions(), []);
  await shown(page.root, null);
});

test("with suspense a list waits for its first load", async () => {
  const { session, core } = await opened();
  const page = begun();
  const element = h(StrictMode, null, h(EscaleProvider, { session }, h(Suspense, { fallback: "waiting" }, h(List, { suspense: true }))));
  await shown(page.root, element);
  assert.equal(page.text(), "waiting");
  assert.equal(core.called("subscribe"), 1);
  await act(async () => (core.put(defOf(games), { name: "a" }), core.becomeReady(defOf(games)), await idle()));
  assert.equal(page.text(), "a true undefined");
  await shown(page.root, null);
});

test("with suspense an error goes to the boundary", async () => {
  class Boundary extends Component {
    state = {};
    static getDerivedStateFromError(error) {
      return { error };
    }
    render() {
      return this.state.error?.code ?? this.props.children;
    }
  }
  const { session, core } = await opened();
  for (let n = 0; n < 1_000; n++) core.subscribe(`Package/${n}`);
  const page = begun();
  const reported = console.error;
  console.error = () => {};
  try {
    const within = h(Suspense, { fallback: "waiting" }, h(List, { suspense: true }));
    await shown(page.root, h(EscaleProvider, { session }, h(Boundary, null, within)));
    assert.equal(page.text(), "too_many_subscriptions");
  } finally {
    console.error = reported;
  }
  await shown(page.root, null);
});

test("without a session hooks are empty, in a page and on a server", async () => {
  const All = () => [h(List, { key: 1 }), String(useStatus()), usePending().length, useRefused().length];
  const page = begun();
  await shown(page.root, h(EscaleProvider, { session: undefined }, h(All)));
  assert.equal(page.text(), " false undefinedundefined00");
  const { renderToString } = await import("react-dom/server");
  assert.match(renderToString(h(EscaleProvider, { session: undefined }, h(All))), / false undefined/);
  const { session, core } = await opened();
  assert.match(renderToString(h(EscaleProvider, { session }, h(All))), / false undefined/);
  assert.equal(core.called("subscribe"), 0, "rendering subscribes to nothing");
  await shown(page.root, null);
});
