// The built site: every link and anchor leads somewhere, every code has its cure and advice, and a browser can read and search it.
import assert from "node:assert/strict";
import { readdir, readFile, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import { test } from "node:test";

import { adviceOf, codesOf, errorsPage, textOf } from "../build/errors.mjs";
import { asPage, descriptionOf } from "../build/links.mjs";
import { GROUPS, pages } from "../build/pages.mjs";
import { openBrowser } from "../../tests/e2e/support/browser.mjs";
import { ROOT } from "../../tests/e2e/support/paths.mjs";
import { startListening, stopProcess } from "../../tests/e2e/support/process.mjs";

const DIST = join(ROOT, "site/dist");
const SERVE = join(ROOT, "scripts/serve-www.mjs");
const BASE = "/docs/";

const files = (await readdir(DIST, { recursive: true })).map((name) => name.replaceAll("\\", "/"));
const html = new Map();
for (const name of files.filter((one) => one.endsWith(".html"))) html.set(name, await readFile(join(DIST, name), "utf8"));

/** The file of an address of the site. */
function fileOf(path) {
  const name = decodeURIComponent(path.slice(BASE.length));
  if (name === "" || name.endsWith("/")) return `${name}index.html`;
  return /\.\w+$/.test(name) ? name : `${name}.html`;
}

test("every document is a page", async () => {
  const known = await pages();
  assert.ok(known.size > 50);
  for (const page of known.values()) assert.ok(html.has(page.replace(/md$/, "html")), page);
  const listed = GROUPS.flatMap(([, list]) => list);
  const top = [...known.values()].filter((page) => !page.includes("/") || page.startsWith("guides/"));
  const isListed = (page) => listed.includes(page) || (page.startsWith("guides/") && listed.includes("guides/*"));
  assert.deepEqual(top.filter((page) => !isListed(page)), [], "each is in the navigation");
});

test("each page is there as Markdown, and the list for coding agents says what is in it", async () => {
  const list = await readFile(join(DIST, "llms.txt"), "utf8");
  const named = new Map([...list.matchAll(/^- \[[^\]]+\]\(\/docs\/(\S+?)\)(?:: (.+))?$/gm)].map(([, page, description]) => [page, description]));
  for (const name of named.keys()) assert.ok(files.includes(name), name);
  for (const page of (await pages()).values()) {
    const name = page.replace(/(.)\/index\.md$/, "$1.md");
    const description = named.get(name);
    assert.ok(description && /\.$/.test(description) && description.length <= 250, `${name}: ${description}`);
    assert.match(await readFile(join(DIST, name), "utf8"), /^# /m, name);
  }
});

test("every link and every anchor leads somewhere", () => {
  const broken = [];
  let count = 0;
  for (const [name, text] of html) {
    for (const [, href] of text.matchAll(/<a[^>]*\shref="([^"]*)"/g)) {
      if (/^(https?|mailto):/.test(href)) continue;
      count += 1;
      const { pathname, hash } = new URL(href, `http://localhost${BASE}${name}`);
      const file = pathname.startsWith(BASE) ? fileOf(pathname) : undefined;
      const page = html.get(file);
      if (!page && !files.includes(file)) broken.push(`${name}: ${href}`);
      else if (hash.length > 1 && page && !page.includes(`id="${decodeURIComponent(hash.slice(1))}"`)) broken.push(`${name}: ${href}`);
    }
  }
  assert.ok(count > 1_000, `${count} links`);
  assert.deepEqual([...new Set(broken)], []);
});

test("no page shows markup as text", () => {
  const shown = [...html].filter(([, text]) => /&lt;(a id|br|p|div|img)\b/.test(text.replace(/<pre[\s\S]*?<\/pre>|<code[\s\S]*?<\/code>/g, "")));
  assert.deepEqual(shown.map(([name]) => name), []);
});

test("every picture is there", () => {
  const missing = [];
  for (const [name, text] of html) {
    for (const [, src] of text.matchAll(/<img[^>]*\ssrc="([^"]*)"/g)) {
      const { pathname } = new URL(src, `http://localhost${BASE}${name}`);
      if (!src.startsWith("data:") && !files.includes(pathname.slice(BASE.length))) missing.push(`${name}: ${src}`);
    }
  }
  assert.deepEqual(missing, []);
});

test("nothing of the site comes from another host", () => {
  const foreign = [];
  for (const [name, text] of html) {
    for (const [, address] of text.matchAll(/<(?:script|link|img)[^>]*\s(?:src|href)="((?:https?:)?\/\/[^"]*)"/g)) foreign.push(`${name}: ${address}`);
  }
  assert.deepEqual(foreign, []);
});

test("the page of error codes has every code of the table, with its cure and its advice", async () => {
  const [table, types, sentences] = await Promise.all(["src/error.rs", "js/src/base/error-codes.ts", "js/src/base/advice/sentences.ts"].map((name) => readFile(join(ROOT, name), "utf8")));
  const codes = codesOf(table).flatMap((group) => group.codes);
  const declared = [.../export type ErrorCode =([^;]*);/.exec(types)[1].matchAll(/"(\w+)"/g)].map(([, name]) => name);
  assert.deepEqual(codes.map(({ name }) => name), declared);
  assert.ok(codes.every(({ when, cure }) => when && cure));
  const page = errorsPage(table, sentences);
  assert.equal(await readFile(join(ROOT, "docs/errors.md"), "utf8"), page, "node scripts/write-errors.mjs writes docs/errors.md again");
  // Each kind of the table has the word that the package gives it.
  const letters = [.../pub enum Kind \{([^}]*)\}/.exec(table)[1].matchAll(/^ {4}(\w),$/gm)].map(([, letter]) => letter);
  const words = [.../export const KINDS = \{([^}]*)\}/.exec(types)[1].matchAll(/(\w): "([\w-]+)"/g)].map(([, letter, word]) => [letter, word]);
  assert.deepEqual(words.map(([letter]) => letter), letters);
  for (const [letter, word] of words) assert.match(page, new RegExp(`\n\\| \`${word}\` \\|.*\\| ${letter} \\|\n`));
  for (const { name, cure } of codes) assert.ok(page.includes(`### ${name}\n`) && page.includes(textOf(cure)), name);
  const advice = adviceOf(sentences);
  assert.deepEqual([...advice.keys()], declared);
  for (const [name, text] of advice) assert.ok(text && page.includes(`**Advice.** ${text}\n`), name);
  assert.throws(() => errorsPage(table, sentences.replace(/\n {2}offline: .*/, "")), /no sentence for offline/);
  assert.throws(() => codesOf("\ncodes! {\n    // Group.\n    Odd line\n}"), /no code/);
});

test("links between documents become links between pages", () => {
  const known = new Map([["docs/a.md", "a.md"], ["docs/sub/README.md", "sub/index.md"], ["README.md", "overview.md"]]);
  const assets = new Map();
  const page = (text) => asPage(text, "docs/a.md", known, assets);
  assert.equal(page("[x](../README.md#top) [y](sub/README.md) [z](sub)"), "[x](./overview.md#top) [y](./sub/index.md) [z](./sub/index.md)");
  assert.equal(page("[away](https://example.org) [here](#x)"), "[away](https://example.org) [here](#x)");
  assert.equal(page("[source](../src/lib.rs)"), "source", "a file that is not in the site");
  assert.equal(page("![p](p.png)"), "![p](./p.png)");
  assert.deepEqual([...assets], [["docs/p.png", "p.png"]]);
  assert.equal(page("```\n[x](../README.md)\n```"), "```\n[x](../README.md)\n```", "code stays");
});

test("a description is the first sentences of a page, without markup", () => {
  const of = (text) => descriptionOf(`# Title\n\n${text}\n\n## Next\n`, 30);
  assert.equal(of("One *is* [here](a.md#b). Two."), "One is here. Two.");
  assert.equal(of("A version 1.2 of `x`. This one is too long."), "A version 1.2 of x.");
  assert.equal(of("![p](p.png)\n\nThree readers:\n\n- a"), "Three readers.");
  assert.equal(of("\n\n```js\ncode\n```"), "");
});

test("the skill of the package is a skill, and each entry that it names is one", async () => {
  const text = await readFile(join(ROOT, "js/skills/escale/SKILL.md"), "utf8");
  const [, head, body] = /^---\n([^]*?)\n---\n([^]*)$/.exec(text);
  const fields = Object.fromEntries(head.split("\n").map((line) => /^(\w+): (.*)$/.exec(line).slice(1)));
  assert.equal(fields.name, "escale", "the name of its folder");
  assert.ok(fields.description.length <= 1_024 && body.split("\n").length < 500);
  const exported = Object.keys(JSON.parse(await readFile(join(ROOT, "pkg/package.json"), "utf8")).exports);
  for (const [, entry] of body.matchAll(/["`]escale\/([\w-]+)["`]/g)) assert.ok(exported.includes(`./${entry}`), entry);
  for (const [, page] of body.matchAll(/`([\w/-]+\.md)`/g)) assert.ok(files.includes(page), page);
});

test("the API reference has each export, with its example", async () => {
  for (const name of ["open", "wipe", "init", "defineSchema", "defineOperations", "newId", "devtools", "redactedReport", "rehearsal"]) {
    const page = [...html].find(([path]) => path.startsWith("api/") && posix.basename(path) === `${name}.html`);
    assert.ok(page, name);
    assert.match(page[1], /id="example"/, name);
  }
  assert.ok([...html.keys()].some((path) => /^api\/.*\/Session\.html$/.test(path)));
});

test("a browser reads and searches the site under its policy, with no other host", { timeout: 90_000 }, async (t) => {
  const { child, port } = await startListening(process.execPath, [SERVE, join(ROOT, "www/dist"), "0", DIST]);
  t.after(() => stopProcess(child, "SIGKILL"));
  const origin = `http://localhost:${port}`;
  for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    const browser = await openBrowser(t, { viewport });
    const page = await browser.context.newPage();
    const [problems, requests] = [[], []];
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(`${origin}/docs/`);
    await page.locator(".VPHero a", { hasText: "Get started" }).click();
    await page.locator("h1", { hasText: "Getting started" }).waitFor();
    await page.locator("button", { hasText: "Search" }).click();
    await page.locator("input[type=search]").fill("wrong_passphrase");
    await page.locator(".result", { hasText: "wrong_passphrase" }).first().waitFor();
    await page.keyboard.press("Enter");
    await page.locator("h1", { hasText: "Error codes" }).waitFor();
    const { scrollWidth, innerWidth } = await page.evaluate(() => ({ scrollWidth: document.documentElement.scrollWidth, innerWidth }));
    assert.ok(scrollWidth <= innerWidth, `${scrollWidth} wide on ${innerWidth}`);
    assert.deepEqual(problems, []);
    assert.ok(requests.length > 5 && requests.every((url) => url.startsWith(`${origin}/docs/`)), `${requests}`);
    if (process.env.SCREENSHOTS) {
      for (const name of ["", "guides/cookbook.html", "api/index/functions/open.html", "guides/comparison.html"]) {
        await page.goto(`${origin}/docs/${name}`);
        await page.screenshot({ path: `${process.env.SCREENSHOTS}/site-${viewport.width}-${name.replaceAll("/", "-")}.png` });
      }
    }
    await browser.close();
  }
});

test("until the site is built its address says so, and the demonstration is served all the same", async (t) => {
  const missing = join(ROOT, "target/no-such-site");
  const { child, port } = await startListening(process.execPath, [SERVE, join(ROOT, "www/dist"), "0", missing]);
  t.after(() => stopProcess(child, "SIGKILL"));
  const get = (path) => fetch(`http://localhost:${port}${path}`);
  const waiting = await get("/docs/");
  assert.deepEqual([waiting.status, /still being built/.test(await waiting.text())], [404, true]);
  assert.equal((await get("/")).status, 200);
  assert.equal((await get("/docs/../../package.json")).status, 404);
  assert.ok((await stat(join(ROOT, "www/dist/index.html"))).isFile());
});

test("each document fits a phone", { timeout: 120_000 }, async (t) => {
  const { child, port } = await startListening(process.execPath, [SERVE, join(ROOT, "www/dist"), "0", DIST]);
  t.after(() => stopProcess(child, "SIGKILL"));
  const browser = await openBrowser(t, { viewport: { width: 390, height: 844 } });
  const page = await browser.context.newPage();
  const wide = [];
  for (const path of [...html.keys()].filter((path) => !path.startsWith("api/"))) {
    await page.goto(`http://localhost:${port}/docs/${path}`);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > 390) wide.push(`${path}: ${width}`);
  }
  assert.deepEqual(wide, []);
});
