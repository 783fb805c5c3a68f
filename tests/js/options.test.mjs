// The refusals of `open` and `defineSchema`, each with the name of the faulty option.
import assert from "node:assert/strict";
import { test } from "node:test";

import { checkOptions } from "../../js/dist/session/options.js";
import { defineSchema } from "../../js/dist/schema/schema.js";

const schema = defineSchema({ Package: { key: ["name"] } });
const good = { org: "demo", schema, server: "http://localhost:7700", passphrase: "x" };
const key = new Uint8Array(32);
const adapter = { sync() {} };

const REFUSED = {
  "no object": [undefined, /object/],
  "a misspelt option": [{ ...good, passfrase: "x" }, /passfrase/],
  "no org": [{ ...good, org: undefined }, /org/],
  "an empty org": [{ ...good, org: "" }, /org/],
  "a long org": [{ ...good, org: "x".repeat(1_025) }, /org/],
  "an org with a slash": [{ ...good, org: "a/b" }, /slash/],
  "an account that is no string": [{ ...good, account: 1 }, /account/],
  "a schema not from defineSchema": [{ ...good, schema: { Package: { key: ["name"] } } }, /defineSchema/],
  "another mode": [{ ...good, mode: "plane" }, /mode/],
  "polls without a break": [{ ...good, pollEveryMs: 10 }, /pollEveryMs/],
  "another format": [{ ...good, format: "xml" }, /format/],
  "no server": [{ ...good, server: undefined }, /server/],
  "no server in incognito": [{ org: "demo", schema, mode: "incognito" }, /server/],
  "a server of another scheme": [{ ...good, server: "ftp://x" }, /http/],
  "a server with a query": [{ ...good, server: "http://x/?a=b" }, /query/],
  "a server with a password": [{ ...good, server: "http://a:b@x/" }, /password/],
  "no URL": [{ ...good, server: "not a url" }, /URL/],
  "an adapter without sync": [{ ...good, server: {} }, /sync/],
  "an adapter whose listen is no method": [{ ...good, server: { ...adapter, listen: 1 } }, /listen/],
  "no passphrase": [{ ...good, passphrase: undefined }, /passphrase/],
  "an empty passphrase": [{ ...good, passphrase: "" }, /passphrase/],
  "a passphrase and a key": [{ ...good, key }, /one of them/],
  "a short key": [{ ...good, passphrase: undefined, key: new Uint8Array(16) }, /32/],
  "a token that is no string": [{ ...good, token: 5 }, /token/],
};
for (const [what, [options, message]] of Object.entries(REFUSED)) {
  test(`open refuses ${what}`, () => {
    assert.throws(() => checkOptions(options), { code: "bad_option", message });
  });
}

test("open takes what each mode needs", () => {
  assert.equal(checkOptions(good).account, "");
  const given = checkOptions({ ...good, passphrase: undefined, key }).key;
  assert.deepEqual(given, key);
  assert.notEqual(given, key, "a copy: either side may overwrite its own");
  assert.equal(checkOptions({ org: "demo", schema, mode: "incognito", server: adapter }).server, adapter);
  assert.equal(checkOptions({ org: "demo", schema, mode: "avion", passphrase: "x" }).server, undefined);
  assert.equal(checkOptions({ ...good, server: new URL("https://x/") }).server, "https://x");
});

const BAD_SCHEMAS = {
  "no object": [null],
  "a class without a key": [{ A: {} }],
  "migrations of another class": [{ A: { key: ["x"], release: 2 } }, { migrate: { B: { 2: (data) => data } } }],
  "a migration to the first release": [{ A: { key: ["x"], release: 2 } }, { migrate: { A: { 1: (data) => data } } }],
  "a migration past the release": [{ A: { key: ["x"] } }, { migrate: { A: { 2: (data) => data } } }],
  "a migration that is no function": [{ A: { key: ["x"], release: 2 } }, { migrate: { A: { 2: 5 } } }],
};
for (const [what, given] of Object.entries(BAD_SCHEMAS)) {
  test(`defineSchema refuses ${what}`, () => {
    assert.throws(() => defineSchema(...given), { code: "bad_schema" });
  });
}

test("a schema is its own JSON, without the functions", () => {
  const classes = { A: { key: ["x"], release: 2 } };
  const defined = defineSchema(classes, { migrate: { A: { 2: (data) => data } } });
  assert.deepEqual(JSON.parse(JSON.stringify(defined)), classes);
});
