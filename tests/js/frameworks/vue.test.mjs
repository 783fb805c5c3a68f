// The composables of `escale/vue` in Vue itself.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defOf, idle, opened, place, putPackage, treeText } from "./page.mjs";

const { createApp, defineComponent, h, nextTick, ref, shallowRef } = await import("vue");
const { createComposables } = await import("../../../js/dist/vue.js");

const { provideSession, useCount, useDocument, useLive, usePending, useQuery, useRefused, useSession, useStatus } = createComposables();
const text = ({ docs, ready, error }) => `${docs.map(({ name }) => name)} ${ready} ${error?.code}`;

/** Mounts a component within one that provides the session. */
function mounted(session, setup) {
  const element = place();
  const Inner = defineComponent({ setup });
  const app = createApp({ setup: () => (provideSession(session), () => h(Inner)) });
  app.mount(element);
  return { app, text: () => element.textContent };
}

test("a list shows the documents, follows its match, and ends with its component", async () => {
  const { session, core } = await opened();
  const section = ref("games");
  const page = mounted(session, () => {
    const list = useLive("Package", () => ({ section: section.value }), { keep: 0 });
    return () => text(list.value);
  });
  core.put(defOf({ section: "games" }), { name: "b" }, { name: "a" });
  core.becomeReady(defOf({ section: "games" }));
  await idle();
  assert.equal(page.text(), "a,b true undefined");
  section.value = "web";
  await nextTick();
  assert.equal(page.text(), " false undefined");
  await idle();
  assert.deepEqual(session.subscriptions(), [defOf({ section: "web" })]);
  page.app.unmount();
  await idle();
  assert.deepEqual(session.subscriptions(), []);
});

test("a document has its items, and a query its count", async () => {
  const { session, core } = await opened();
  const key = ref("a");
  const page = mounted(session, () => {
    const [tree, number] = [useDocument("Package", () => [key.value], { items: ["File"], keep: 0 }), useCount((given) => given.query("Package"))];
    return () => `${treeText(tree.value)} ${number.value.count}`;
  });
  putPackage(core);
  core.put("Package", { name: "c" }, { name: "b" });
  await idle();
  assert.equal(page.text(), "a x,y true 2");
  key.value = "other";
  await idle();
  assert.equal(page.text(), "undefined  false 2");
  page.app.unmount();
  await idle();
  assert.deepEqual(session.subscriptions(), ["Package"], "which the core itself holds");
});

test("a session in a `ref` works, though a ref gives proxies of its objects", async () => {
  const { session, core } = await opened();
  const page = mounted(ref(session), () => {
    assert.equal(useSession(), session);
    const [list, status] = [useLive("Package", { section: "games" }, { keep: 0 }), useStatus()];
    return () => `${text(list.value)} ${status.value.phase}`;
  });
  core.put(defOf({ section: "games" }), { name: "a" });
  core.becomeReady(defOf({ section: "games" }));
  await idle();
  assert.match(page.text(), /^a true undefined /);
  page.app.unmount();
  await idle();
});

test("1,000 mounts and unmounts leave no subscription, no listener", async () => {
  const { session, core, listeners } = await opened();
  const before = listeners();
  for (let n = 0; n < 1_000; n++) {
    const { app } = mounted(session, () => {
      const list = useLive("Package", { section: `s${n}` }, { keep: 0 });
      const one = useDocument("Package", [`p${n}`], { keep: 0 });
      const found = useQuery((given) => given.query("Package").where("size", ">", n));
      const others = [useStatus(), usePending(), useRefused()];
      assert.equal(useSession(), session);
      return () => [list, one, found, ...others].map((it) => String(it.value)).join();
    });
    app.unmount();
    // No more than a thousand at once.
    if (n % 100 === 0) await idle();
  }
  await idle();
  assert.equal(core.called("subscribe"), 2_000);
  assert.deepEqual(session.subscriptions(), []);
  assert.equal(listeners(), before);
});

test("errors, a session that closes, and another one that takes over", async () => {
  const first = await opened();
  const second = await opened();
  const current = shallowRef();
  const page = mounted(current, () => {
    const list = useLive("Package", { section: "games" }, { keep: 0 });
    const status = useStatus();
    const pending = usePending();
    return () => `${text(list.value)} ${status.value?.phase} ${pending.value.length}`;
  });
  assert.equal(page.text(), " false undefined undefined 0", "no session yet");
  current.value = first.session;
  await nextTick();
  assert.equal(page.text(), " false undefined live 0");
  first.core.tell({ mode: "avion" });
  await nextTick();
  assert.equal(page.text(), " false not_loaded live 0");
  await first.session.lock();
  await nextTick();
  assert.equal(page.text(), " false closed closed 0");
  current.value = second.session;
  await nextTick();
  assert.equal(page.text(), " false undefined live 0");
  page.app.unmount();
});
