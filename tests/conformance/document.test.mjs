// The kit quotes docs/protocol.md: each check names a section and words that stand there. Each section of the page has a
// check, or a reason why no check can see it from outside. So the kit cannot fall behind the page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { CHECKS, HOOKS, SCHEMA, UNCHECKABLE, WATCHES } from "../../conformance/src/index.mjs";
import { shaS } from "../../conformance/src/names.mjs";
import { ROOT } from "../e2e/support/paths.mjs";

const read = (path) => readFileSync(join(ROOT, path), "utf8");
const ALL = [...CHECKS, ...WATCHES];
const plain = (text) => text.replace(/\s+/g, " ").trim();
const slug = (heading) => heading.toLowerCase().replace(/[^\w\- ]/g, "").trim().replaceAll(" ", "-");

/** The sections of the page by their anchors, with their words. A section ends at the next heading of any level. */
function sections() {
  const found = new Map();
  let current;
  for (const line of read("docs/protocol.md").split("\n")) {
    const heading = /^##+ (.+)$/.exec(line);
    if (heading) found.set((current = slug(heading[1])), []);
    else if (current) found.get(current).push(line.replace(/^- /, "").replace(/^\| ?/, ""));
  }
  return new Map([...found].map(([anchor, lines]) => [anchor, plain(lines.join(" "))]));
}

test("each check quotes words of its section of docs/protocol.md", () => {
  const page = sections();
  const wrong = ALL.filter(({ at, says }) => !page.get(at)?.includes(plain(says)));
  assert.deepEqual(wrong.map(({ id, at, says }) => `${id}: #${at} has no "${says}"`), []);
});

test("each section of docs/protocol.md has a check, or a reason why none can see it", () => {
  const checked = new Set(ALL.map(({ at }) => at));
  const open = [...sections().keys()].filter((anchor) => !checked.has(anchor) && !Object.hasOwn(UNCHECKABLE, anchor));
  assert.deepEqual(open, []);
  const both = Object.keys(UNCHECKABLE).filter((anchor) => checked.has(anchor) || !sections().has(anchor));
  assert.deepEqual(both, [], "a reason for a section that has a check, or is not there");
});

test("each check has an id of its own, a hint, and needs that exist", () => {
  const ids = ALL.map(({ id }) => id);
  assert.deepEqual(ids.filter((id, i) => ids.indexOf(id) !== i), []);
  assert.deepEqual(ALL.filter(({ hint }) => !hint).map(({ id }) => id), []);
  const known = new Set([...Object.keys(HOOKS), "token", "tokenOther", "tokenRead", "tokenForeign", "tokenEnds", "secondUrl", "accounts"]);
  assert.deepEqual(ALL.flatMap(({ needs }) => needs).filter((need) => !known.has(need)), []);
});

test("each check names a rule of docs/rules.md, or none", () => {
  const rules = new Set(read("docs/rules.md").match(/\*\*R\d+/g).map((one) => one.slice(2)));
  assert.deepEqual(ALL.filter(({ rule }) => rule && !rules.has(rule)).map(({ id }) => id), []);
});

test("docs/conformance.md lists each check, each hook and each section without checks", () => {
  const page = read("docs/conformance.md");
  const groups = new Map();
  for (const { id, at } of ALL) {
    const [group, name] = id.split(".");
    groups.set(group, [...(groups.get(group) ?? []), [name, at]]);
  }
  const lines = [...groups].flatMap(([group, checks]) => {
    const anchors = [...new Set(checks.map(([, at]) => `[${at}](protocol.md#${at})`))];
    return [`| \`${group}\` | ${checks.map(([name]) => `\`${name}\``).join(" ")} | ${anchors.join(", ")} |`];
  });
  const missing = lines.filter((line) => !page.includes(line));
  assert.deepEqual(missing, [], `the table of checks lacks:\n${missing.join("\n")}`);
  assert.equal(page.match(/^\| `[a-z-]+` \| `/gm).length, groups.size, "a line of a group that is not there");
  for (const [name, does] of Object.entries(HOOKS)) assert.ok(page.includes(`| \`--${name}\` | ${does} |`), `| \`--${name}\` | ${does} |`);
  for (const [anchor, reason] of Object.entries(UNCHECKABLE)) {
    const line = `| [${anchor}](protocol.md#${anchor}) | ${reason} |`;
    assert.ok(page.includes(line), line);
  }
});

test("the kit hashes as tests/vectors/hash.json does", () => {
  const { hashes } = JSON.parse(read("tests/vectors/hash.json"));
  assert.ok(hashes.length > 0, "there are vectors");
  for (const { s, shaS: wanted } of hashes) {
    const text = typeof s === "string" ? s : s.repeat.repeat(s.times);
    assert.equal(shaS(text), wanted, text.slice(0, 40));
  }
});

test("the schema of the kit has each part of the schema language that a client can see", () => {
  const text = JSON.stringify(SCHEMA);
  for (const part of ['"sync":false', '"list":true', '"mutable":true', '"release"', '"unique":true', '"global":true', '"in"', '"clock":"sequence"', '"raw":true', '"file"', '"file[]"', '"integer"', '"number"', '"string"', '"string[]"', '"hash"']) {
    assert.ok(text.includes(part), part);
  }
});
