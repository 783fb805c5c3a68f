// The demonstration, as a visitor uses it, on a desktop and on a phone: follow topics, watch changes, go to avion, open
// the inspector, lose every server.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defOf, MemoryServer } from "../support/memory-server.mjs";
import { byName, inSection, packages, withTag } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { Needles } from "../support/search.mjs";
import { packagesServer } from "../support/server.mjs";
import { SCREENS, serveDemonstration, visit, Visitor } from "../support/visitor.mjs";

const SECTION = "games";
const TAG = "interface::x11";
const DEFS = [defOf("section", SECTION), defOf("tags", TAG)];
const WORDS = "changed while the visitor was in the air";

const followed = packages.filter(({ section, tags }) => section === SECTION || tags.includes(TAG)).sort(byName);
const inRows = (documents) => documents.map(({ name, summary }) => [name, summary]);
const seconds = (n) => ({ timeout: n * 1_000 });

/** The numbers of the data, for each topic and for both together. */
async function seesTheNumbers(visitor) {
  await visitor.seesFollowed(`section-${SECTION}`, inSection(SECTION).length);
  await visitor.seesFollowed(`tag-${TAG}`, withTag(TAG).length);
  await visitor.seesListed(followed.length);
  assert.equal(await visitor.on("count").textContent(), `${followed.length} packages`);
  await visitor.on(`view-section-${SECTION}`).click();
  await visitor.seesListed(inSection(SECTION).length);
  await visitor.on(`view-section-${SECTION}`).click();
  await visitor.seesListed(followed.length);
}

/** Checks one listed package: the panel shows the data. */
async function seesPackage(visitor, document, listed = followed) {
  await visitor.on("filter").fill(document.name);
  await visitor.seesListed(listed.filter(({ name, summary }) => `${name} ${summary}`.toLowerCase().includes(document.name)).length);
  await visitor.page.locator(`[data-testid="row"][data-name="${document.name}"]`).click();
  assert.equal(await visitor.on("detail-name").textContent(), document.name);
  assert.equal(await visitor.on("detail-summary").textContent(), document.summary);
  const text = await visitor.on("detail").textContent();
  for (const value of [document.version, document.maintainer, document.sha256, ...document.tags, ...document.depends]) {
    assert.ok(text.includes(value), `${document.name} is shown without ${value}`);
  }
  await visitor.look("a package");
  await visitor.on("detail-close").click();
  await visitor.on("filter").fill("");
  await visitor.seesListed(listed.length);
}

/** Opens the inspector and reads its tabs; `versions` gives the possible `v` of a def. */
async function looksInside(visitor, versions) {
  const part = (name) => visitor.page.locator(`escale-devtools [part~="${name}"]`);
  await visitor.act("inspector");
  await part("tab-subscriptions").click();
  await part("collection").first().waitFor();
  const totals = await part("totals").evaluate(({ dataset: { documents, collections } }) => [documents, collections].map(Number));
  assert.deepEqual(totals, [followed.length, DEFS.length]);
  const shown = await part("collection").evaluateAll((list) => list.map((one) => ({ ...one.dataset, text: one.closest("tr").textContent })));
  const sizes = [inSection(SECTION).length, withTag(TAG).length];
  assert.deepEqual(shown.map(({ def, size }) => [def, size]).sort(), DEFS.map((def, i) => [def, `${sizes[i]}`]).sort());
  for (const { def, v, text } of shown) {
    assert.ok(text.includes(v) && text.includes("ready"), text);
    assert.ok(versions(def).includes(Number(v)), `${def} is at ${v}, not at one of ${versions(def)}`);
  }
  await visitor.look("the inspector's subscriptions");
  await part("tab-topics").click();
  assert.equal(await visitor.on("topic").count(), DEFS.length);
  await visitor.look("the inspector's topics");

  await part("tab-storage").click();
  await part("record").waitFor();
  const records = Number(await part("records").getAttribute("data-records"));
  const tables = await part("object-store").allTextContents();
  assert.equal(tables.length, 2, `${tables}`);
  const options = await part("record").locator("option").evaluateAll((list) => list.map(({ value }) => value));
  assert.equal(options.length, records, "every record can be looked at");
  const needles = new Needles([...followed.flatMap(({ depends, tags, ...one }) => [...Object.values(one).map(String), ...depends, ...tags]), ...DEFS]);
  assert.ok(needles.texts.length > followed.length);
  for (const option of options) {
    await part("record").selectOption(option);
    const dump = await part("hex").textContent();
    const bytes = Buffer.from(dump.replace(/^[0-9a-f]{4} {2}(.{23}) {2}(.{23}) .*$|^.*$/gm, "$1$2").replace(/\s/g, ""), "hex");
    assert.ok(bytes.length > 32, `record ${option} is shown`);
    for (const readable of [bytes, Buffer.from(dump)]) {
      needles.find(readable, ({ text, form }) => assert.fail(`record ${option} shows ${text} in ${form}`));
    }
  }
  await visitor.look("what rests");

  await part("tab-search-for-plaintext").click();
  // The control: the same search finds the same document in the clear text.
  const inClear = new Set();
  needles.find(Buffer.from(await visitor.on("clear-text").textContent()), ({ text }) => inClear.add(text));
  assert.ok(inClear.has(followed[0].summary), `${[...inClear]}`);
  await visitor.on("plaintext-search").click();
  const result = visitor.on("plaintext-result");
  await result.locator("table").waitFor();
  assert.deepEqual(await result.evaluate(({ dataset: { hits, records: read } }) => [hits, Number(read)]), ["0", records]);
  const control = await result.locator("tbody tr").evaluateAll((list) => list.map((row) => [...row.cells].slice(1).map((cell) => cell.textContent)));
  assert.ok(control.length > 3 && control.every(([rest, memory]) => rest === "0" && memory === "found"), JSON.stringify(control));
  await visitor.look("the search for plaintext");
  await visitor.on("inspector-close").click();
}

visit("a desk", "a visitor follows a section and a tag, flies, and has all of it with no server", seconds(180), async (t, options) => {
  const server = await packagesServer(t);
  const [proxy, site] = [await startProxy(t, server), await serveDemonstration(t)];
  const visitor = await Visitor.at(t, site.of(proxy.url), options);
  await visitor.look("the first screen");
  await visitor.openFirst("synced");
  await visitor.on("status-phase").filter({ hasText: "Ready" }).waitFor();
  await visitor.look("nothing followed");
  await visitor.choose(`section-${SECTION}`, `tag-${TAG}`);
  await seesTheNumbers(visitor);
  await visitor.sees("Live");
  await visitor.look("the list");
  assert.deepEqual(await visitor.listed(), inRows(followed));
  await seesPackage(visitor, followed.find(({ depends, tags }) => depends.length > 8 && tags.length > 5));

  // In avion: nothing makes the page contact the server.
  await visitor.on("go-avion").click();
  await visitor.sees("Avion");
  const [before, asked] = [visitor.addresses.length, proxy.requests.length];
  const changed = { ...followed[0], summary: WORDS };
  await server.import("demo", "Package", [changed]);
  await visitor.page.evaluate(() => {
    for (const name of ["online", "pageshow", "focus"]) window.dispatchEvent(new Event(name));
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await looksInside(visitor, (def) => {
    // A load of several pages ends at the time of its first page.
    const told = proxy.requests.filter(({ reply, subs }) => {
      return reply?.parts.some((part) => part.def === def) && subs.some(([of, , cursor]) => of === def && cursor === undefined);
    });
    return told.map(({ reply }) => reply.now - reply.delta);
  });
  await visitor.choose("section-fonts");
  await visitor.page.locator('[data-testid="view-section-fonts"][data-ready="false"]').waitFor();
  assert.deepEqual(await visitor.listed(), inRows(followed), "what rests is shown as it was");
  assert.deepEqual([visitor.addresses.slice(before), proxy.requests.length], [[], asked]);
  await visitor.look("the list in avion");

  // Back online: missed changes arrive, and the topic that was followed meanwhile.
  await visitor.on("go-synced").click();
  await visitor.sees("Live");
  await visitor.seesFollowed("section-fonts", inSection("fonts").length);
  await visitor.on("unfollow-section-fonts").click();
  await visitor.seesListed(followed.length);
  await visitor.page.locator('[data-testid="row"]', { hasText: WORDS }).waitFor();
  const held = followed.with(0, changed);
  const now = inRows(held);
  assert.deepEqual(await visitor.listed(), now);
  const endpoints = [`${proxy.url}/demo/sync`, `${proxy.url.replace("http", "ws")}/demo/live`];
  assert.deepEqual([...new Set(visitor.addresses.slice(before))].sort(), endpoints);
  // In all requests there are only the page's own files, and no followed topic.
  const isFile = (address) => address === visitor.address || (address.startsWith(`${site.origin}/`) && !/[?#]/.test(address));
  assert.ok(visitor.addresses.every((address) => isFile(address) || endpoints.includes(address)), `${visitor.addresses}`);

  // Both servers stop. The page is reloaded, and everything is there.
  await server.stop("SIGKILL");
  await site.stop();
  await visitor.page.reload();
  assert.ok(await visitor.page.evaluate(() => navigator.serviceWorker.controller !== null), "the page's own copy opened");
  await visitor.open("avion");
  await visitor.sees("Avion");
  await seesTheNumbers(visitor);
  assert.deepEqual(await visitor.listed(), now);
  await seesPackage(visitor, changed, held);
  await visitor.look("the list with no server");
  await visitor.act("change-passphrase");
  await visitor.look("the change of the passphrase");
  await visitor.page.keyboard.press("Escape");
  await visitor.act("wipe");
  await visitor.look("the question before wiping");
  await visitor.on("wipe-cancel").click();
  await visitor.act("lock");
  await visitor.open("synced");
  await visitor.sees("Offline");
  await seesTheNumbers(visitor);
  assert.deepEqual(await visitor.listed(), now);
  await visitor.look("the list while the server does not answer");
  assert.deepEqual(visitor.errors, []);
});

visit("a phone", "a long first load shows how far it has come, and ends", seconds(120), async (t, options) => {
  const server = await packagesServer(t);
  const [proxy, site] = [await startProxy(t, server), await serveDemonstration(t)];
  const visitor = await Visitor.at(t, site.of(proxy.url), options);
  await visitor.openFirst("synced");
  // The third page is kept back until the visitor has seen the first two counted.
  const pages = () => proxy.requests.filter(({ reply }) => reply?.parts.some(({ rows }) => rows?.length > 0)).length;
  let release;
  const seen = new Promise((resolve) => (release = resolve));
  proxy.cuts = () => (pages() === 2 ? seen : false);
  await visitor.page.evaluate(() => {
    const progress = document.querySelector('[data-testid="progress"]');
    window.progress = [];
    const note = () => window.progress.push(progress.hidden ? null : { ...progress.dataset, text: progress.textContent });
    new MutationObserver(note).observe(progress, { attributes: true, subtree: true, childList: true });
  });
  assert.equal(await visitor.on("progress").isVisible(), false);
  await visitor.choose("all");
  const received = () => proxy.requests.flatMap(({ reply }) => reply?.parts ?? []).reduce((sum, { rows }) => sum + rows.length, 0);
  await visitor.page.locator('[data-testid="progress"][data-total="20000"]').waitFor();
  await visitor.sees("Loading");
  await visitor.page.waitForFunction(() => document.querySelector('[data-testid="list"]').dataset.count === document.querySelector('[data-testid="progress"]').dataset.received);
  await visitor.page.locator(`[data-testid="progress"][data-received="${received()}"]`).waitFor();
  const half = received();
  assert.ok(half > 0 && half < packages.length);
  assert.ok(await visitor.on("progress").isVisible());
  assert.equal(await visitor.on("progress").textContent(), `${half.toLocaleString("en")} of 20,000`);
  assert.equal(await visitor.on("progress").getAttribute("aria-valuenow"), `${Math.round((half / packages.length) * 100)}`);
  await visitor.look("the loading list");
  release(false);
  await visitor.sees("Live");
  await visitor.on("progress").waitFor({ state: "hidden" });
  await visitor.seesFollowed("all", packages.length);
  const steps = (await visitor.page.evaluate(() => window.progress)).filter((step) => step !== null);
  const counts = steps.map((step) => Number(step.received));
  assert.ok(new Set(counts).size >= 3, `${counts}`);
  assert.ok(counts.every((count, i) => i === 0 || count >= counts[i - 1]), `${counts}`);
  assert.ok(steps.every(({ received: count, total }) => Number(count) <= packages.length && (total === "20000" || count === "0")), JSON.stringify(steps));
  assert.deepEqual(visitor.errors, []);
});

test("the whole demonstration runs over an adapter object of the page, with no server at all", seconds(120), async (t) => {
  const memory = new MemoryServer(packages);
  const site = await serveDemonstration(t);
  const visitor = await Visitor.at(t, site.of(), SCREENS["a desk"], (context) => memory.putOn(context));
  await visitor.on("adapter").waitFor();
  assert.equal(await visitor.on("server").count(), 0, "no address is asked for");
  await visitor.openFirst("synced");
  await visitor.choose(`section-${SECTION}`, `tag-${TAG}`);
  await seesTheNumbers(visitor);
  await visitor.sees("Live");
  assert.deepEqual(await visitor.listed(), inRows(followed));
  await seesPackage(visitor, followed[1]);

  // Live: one package changes on the screen, another one leaves both topics.
  const [first, second] = followed;
  await memory.put({ ...first, summary: WORDS });
  await visitor.page.locator('[data-testid="row"]', { hasText: WORDS }).waitFor();
  await memory.put({ ...second, section: "admin", tags: [] });
  await visitor.seesListed(followed.length - 1);
  const now = inRows([{ ...first, summary: WORDS }, ...followed.slice(2)]);
  assert.deepEqual(await visitor.listed(), now);

  // A long load, in pages that the adapter makes.
  await visitor.choose("all");
  await visitor.seesFollowed("all", packages.length);
  assert.ok(memory.requests.filter(({ subs }) => subs.some(([, , cursor]) => cursor !== undefined)).length >= 19);
  await visitor.on("unfollow-all").click();
  await visitor.seesListed(now.length);

  await visitor.on("go-avion").click();
  await visitor.sees("Avion");
  const asked = memory.requests.length;
  await memory.put({ ...first, summary: `${WORDS}, again` });
  await visitor.page.reload();
  await visitor.open("avion");
  await visitor.sees("Avion");
  await visitor.seesListed(now.length);
  assert.deepEqual(await visitor.listed(), now);
  assert.equal(memory.requests.length, asked, "in avion the adapter is not asked");
  await visitor.on("go-synced").click();
  await visitor.page.locator('[data-testid="row"]', { hasText: `${WORDS}, again` }).waitFor();
  assert.ok(memory.requests.slice(asked).every(({ subs }) => subs.every(([, v]) => v > 0)), "only what changed is asked for");
  assert.ok(visitor.addresses.every((address) => address.startsWith(`${site.origin}/`)), `${visitor.addresses}`);
  assert.deepEqual(visitor.errors, []);
});
