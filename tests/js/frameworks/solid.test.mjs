// The primitives of `escale/solid` in Solid itself. Run it with `--conditions=browser`: Node alone takes Solid's build for
// servers, in which nothing ever changes.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defOf, idle, opened, putPackage, treeText } from "./page.mjs";

const { createComponent, createRoot, createSignal, createRenderEffect } = await import("solid-js");
const { createPrimitives } = await import("../../../js/dist/solid.js");

const { EscaleProvider, createCount, createDocument, createLive, createQuery, usePending, useRefused, useSession, useStatus } = createPrimitives();
const text = ({ docs, ready, error }) => `${docs.map(({ name }) => name)} ${ready} ${error?.code}`;

/** Runs a component within the provider. The function that it returns ends it. */
function mounted(session, component) {
  return createRoot((end) => {
    createComponent(EscaleProvider, {
      get session() {
        return session();
      },
      get children() {
        return createComponent(component, {});
      },
    });
    return end;
  });
}

test("a list shows the documents, follows its match, and ends with its owner", async () => {
  const { session, core } = await opened();
  const [section, setSection] = createSignal("games");
  let shown;
  const end = mounted(() => session, () => {
    const list = createLive("Package", () => ({ section: section() }), { keep: 0 });
    createRenderEffect(() => (shown = text(list())));
  });
  core.put(defOf({ section: "games" }), { name: "b" }, { name: "a" });
  core.becomeReady(defOf({ section: "games" }));
  await idle();
  assert.equal(shown, "a,b true undefined");
  setSection("web");
  await idle();
  assert.equal(shown, " false undefined");
  assert.deepEqual(session.subscriptions(), [defOf({ section: "web" })]);
  end();
  await idle();
  assert.deepEqual(session.subscriptions(), []);
});

test("a document has its items, and a query its count", async () => {
  const { session, core } = await opened();
  let shown;
  const end = mounted(() => session, () => {
    const [tree, number] = [createDocument("Package", () => ["a"], { items: ["File"], keep: 0 }), createCount((given) => given.query("Package"))];
    createRenderEffect(() => (shown = `${treeText(tree())} ${number().count}`));
  });
  putPackage(core);
  core.put("Package", { name: "c" }, { name: "b" });
  await idle();
  assert.equal(shown, "a x,y true 2");
  end();
  await idle();
  assert.deepEqual(session.subscriptions(), ["Package"], "which the core itself holds");
});

test("1,000 owners that come and go leave no subscription, no listener", async () => {
  const { session, core, listeners } = await opened();
  const before = listeners();
  for (let n = 0; n < 1_000; n++) {
    const end = mounted(() => session, () => {
      createLive("Package", () => ({ section: `s${n}` }), { keep: 0 });
      createDocument("Package", () => [`p${n}`], { keep: 0 });
      createQuery((given) => given.query("Package").where("size", ">", n));
      assert.deepEqual([useStatus()().phase, usePending()().length, useRefused()().length], ["live", 0, 0]);
      assert.equal(useSession(), session);
    });
    end();
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
  const [current, setCurrent] = createSignal();
  let shown;
  const end = mounted(current, () => {
    const list = createLive("Package", () => ({ section: "games" }), { keep: 0 });
    const status = useStatus();
    createRenderEffect(() => (shown = `${text(list())} ${status()?.phase}`));
  });
  assert.equal(shown, " false undefined undefined", "no session yet");
  setCurrent(first.session);
  assert.equal(shown, " false undefined live");
  first.core.tell({ mode: "avion" });
  assert.equal(shown, " false not_loaded live");
  await first.session.lock();
  assert.equal(shown, " false closed closed");
  setCurrent(second.session);
  assert.equal(shown, " false undefined live");
  end();
});
