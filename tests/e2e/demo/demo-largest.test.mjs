// The demonstration's largest packages, as a visitor pages through them, on a desktop and on a phone: compared with a
// filter and a sort of the data, with the server and without it, while another tab changes them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defOf, MemoryServer } from "../support/memory-server.mjs";
import { inSection, packages, withTag } from "../support/packages.mjs";
import { packagesServer } from "../support/server.mjs";
import { SCREENS, serveDemonstration, visit, Visitor } from "../support/visitor.mjs";

const SECTION = "games";
const TAG = "interface::x11";
const PAGE = 20;
const KIB = 1024;
const MIB = KIB * KIB;

const held = packages.filter(({ section, tags }) => section === SECTION || tags.includes(TAG));
const installed = ({ installedSize }) => installedSize * KIB;
const download = ({ size }) => size;
const bySize = (measure) => (a, b) => measure(b) - measure(a);
const seconds = (n) => ({ timeout: n * 1_000 });
const count = (n) => n.toLocaleString("en");

/** Shows a list: a desk has tabs above it, a phone below. */
async function shows(visitor, list) {
  const tab = visitor.on(`tab-${list}`);
  await ((await tab.isVisible()) ? tab : visitor.on(`list-${list}`)).click();
}

const exactly = (text) => new RegExp(`^${text}$`);
const range = (visitor, text) => visitor.on("largest-range").filter({ hasText: exactly(text) }).waitFor();
const tally = (visitor, text) => visitor.on("largest-count").filter({ hasText: exactly(text) }).waitFor();
const seesRange = (visitor, from, until, of) => range(visitor, `${count(from)} to ${count(until)} of ${count(of)}`);
const isEnd = async (visitor, button) => (await visitor.on(button).getAttribute("aria-disabled")) === "true";

/** The rows of the page: `[rank, name]`. */
const rows = (visitor) =>
  visitor.on("largest-row").evaluateAll((list) =>
    list.filter((row) => row.checkVisibility()).map((row) => [Number(row.querySelector(".rank").textContent.replace(",", "")), row.dataset.name]),
  );
const first = (visitor, name) => visitor.page.locator(`li:first-child > [data-testid="largest-row"][data-name="${name}"]`).waitFor();

/** Turns every page, and compares: each package once, in the order of its size, with its rank. Ends on the first page. */
async function pagesThrough(visitor, expected, measure) {
  const sizes = new Map(expected.map((doc) => [doc.name, measure(doc)]));
  const all = [];
  for (let page = 1; ; page++) {
    await seesRange(visitor, all.length + 1, Math.min(page * PAGE, expected.length), expected.length);
    all.push(...(await rows(visitor)));
    if (await isEnd(visitor, "largest-next")) break;
    assert.equal(all.length, page * PAGE);
    await visitor.on("largest-next").click();
  }
  assert.deepEqual(all.map(([rank]) => rank), expected.map((_, place) => place + 1));
  assert.deepEqual(all.map(([, name]) => name).sort(), [...sizes.keys()].sort());
  assert.deepEqual(all.map(([, name]) => sizes.get(name)), [...expected].sort(bySize(measure)).map(measure));
  for (let page = Math.ceil(expected.length / PAGE) - 1; page > 0; page--) {
    await visitor.on("largest-previous").click();
    await seesRange(visitor, (page - 1) * PAGE + 1, page * PAGE, expected.length);
  }
  assert.ok(await isEnd(visitor, "largest-previous"));
}

visit("a phone", "a visitor pages through the largest packages, with the server and without", seconds(180), async (t, options) => {
  const server = await packagesServer(t);
  const site = await serveDemonstration(t);
  const visitor = await Visitor.at(t, site.of(server.url), options);
  await visitor.openFirst("synced");
  await visitor.on("status-phase").filter({ hasText: "Ready" }).waitFor();
  await shows(visitor, "largest");
  await visitor.page.locator('[data-testid="largest-empty"][data-state="nothing"]').waitFor();
  await visitor.look("the largest of nothing");
  await visitor.choose(`section-${SECTION}`, `tag-${TAG}`);
  await visitor.sees("Live");
  await tally(visitor, `${count(held.length)} packages`);
  await visitor.look("the largest");
  await pagesThrough(visitor, held, installed);

  // Filters by size and by name. The minimum is of the size that orders the list.
  await visitor.on("largest-measure").selectOption("size");
  await visitor.on("largest-minimum").selectOption({ label: "10 MiB or more" });
  const large = held.filter((doc) => download(doc) >= 10 * MIB);
  assert.ok(large.length > PAGE, "several pages");
  await tally(visitor, `${count(large.length)} packages match`);
  await pagesThrough(visitor, large, download);
  await visitor.on("largest-next").click();
  await visitor.on("largest-prefix").fill("F");
  const fs = large.filter(({ name }) => name.startsWith("f"));
  await tally(visitor, `${count(fs.length)} packages match`);
  await pagesThrough(visitor, fs, download);
  await visitor.look("the largest, filtered");
  await visitor.on("largest-prefix").fill("no such package");
  await visitor.page.locator('[data-testid="largest-empty"][data-state="filtered"]').waitFor();
  await visitor.look("none of the largest");
  await visitor.on("largest-empty-clear").click();
  await seesRange(visitor, 1, PAGE, held.length);

  // One topic alone; it is left while the list shows it.
  await visitor.on("largest-measure").selectOption("installedSize");
  await visitor.on(`view-section-${SECTION}`).click();
  await tally(visitor, `${count(inSection(SECTION).length)} packages`);
  await pagesThrough(visitor, inSection(SECTION), installed);
  await visitor.on(`unfollow-section-${SECTION}`).click();
  const left = withTag(TAG);
  await tally(visitor, `${count(left.length)} packages`);
  await pagesThrough(visitor, left, installed);
  assert.equal(await visitor.on("faults").isVisible(), false, "no query outlived its topic");

  // The package of a row.
  const [largest] = [...left].sort(bySize(installed));
  await first(visitor, largest.name);
  await visitor.on("largest-row").first().click();
  await visitor.on("detail-summary").filter({ hasText: largest.summary }).waitFor();
  await visitor.look("a large package");
  await visitor.on("detail-close").click();

  // Without any server, after a reload.
  await server.stop("SIGKILL");
  await site.stop();
  await visitor.page.reload();
  await visitor.open("avion");
  await visitor.sees("Avion");
  await shows(visitor, "largest");
  await pagesThrough(visitor, left, installed);
  await visitor.on("largest-prefix").fill("x");
  await tally(visitor, `${count(left.filter(({ name }) => name.startsWith("x")).length)} packages match`);
  assert.deepEqual(visitor.errors, []);
});

test("a change in one tab moves the list and its counts in the other, with the server and without", seconds(120), async (t) => {
  const server = await packagesServer(t);
  const site = await serveDemonstration(t);
  const one = await Visitor.at(t, site.of(server.url));
  await one.openFirst("synced");
  await one.choose(`section-${SECTION}`);
  await one.sees("Live");
  const other = await one.another();
  await other.open("synced");
  const games = inSection(SECTION).sort(bySize(installed));
  const [largest, second] = games;
  for (const visitor of [one, other]) {
    await shows(visitor, "largest");
    await first(visitor, largest.name);
    await seesRange(visitor, 1, PAGE, games.length);
  }

  const deletes = async (visitor) => {
    await visitor.on("largest-row").first().click();
    await visitor.on("delete").click();
    await visitor.on("taken").waitFor();
  };
  await deletes(one);
  for (const visitor of [one, other]) {
    await first(visitor, second.name);
    await seesRange(visitor, 1, PAGE, games.length - 1);
  }
  await one.on("restore").click();
  await first(other, largest.name);
  await seesRange(other, 1, PAGE, games.length);

  // The other tab is on its second page: its packages stay, and their ranks move.
  await other.on("largest-next").click();
  await seesRange(other, PAGE + 1, 2 * PAGE, games.length);
  const before = await rows(other);
  const giant = { ...second, name: "a-giant", installedSize: largest.installedSize + 1 };
  await server.import("demo", "Package", [giant]);
  await first(one, giant.name);
  await seesRange(other, PAGE + 2, 2 * PAGE + 1, games.length + 1);
  assert.deepEqual(await rows(other), before.map(([rank, name]) => [rank + 1, name]));
  await other.on("largest-previous").click();
  await first(other, giant.name);

  // Without a server.
  await server.stop("SIGKILL");
  await one.sees("Offline");
  await other.sees("Offline");
  await one.on("detail-close").click();
  await deletes(one);
  await first(other, largest.name);
  await seesRange(other, 1, PAGE, games.length);
  await tally(other, `${count(games.length)} packages`);
  assert.deepEqual([one.errors, other.errors], [[], []]);
});

test("rows without text until packages arrive, and in avion the reason why there are none", seconds(60), async (t) => {
  const memory = new MemoryServer(inSection(SECTION));
  let release;
  const answered = new Promise((resolve) => (release = resolve));
  const def = defOf("section", SECTION);
  memory.holds = ({ subs }) => (subs.some(([asked]) => asked === def) ? answered : undefined);
  const site = await serveDemonstration(t);
  const visitor = await Visitor.at(t, site.of(), SCREENS["a phone"], (context) => memory.putOn(context));
  await visitor.openFirst("synced");
  await shows(visitor, "largest");
  await visitor.on("go-avion").click();
  await visitor.sees("Avion");
  await visitor.choose(`section-${SECTION}`);
  const empty = (state) => visitor.page.locator(`[data-testid="largest-empty"][data-state="${state}"]`).waitFor();
  await empty("waiting-avion");
  await visitor.look("the largest of what is not loaded");
  await visitor.on("go-synced").click();
  await empty("loading");
  await visitor.look("the largest while they load");
  release();
  await seesRange(visitor, 1, PAGE, inSection(SECTION).length);
  await visitor.on("largest-empty").waitFor({ state: "hidden" });
  assert.deepEqual(visitor.errors, []);
});
