// The sentences for the person in front of the page: whole, plain, and the same for each way that an error comes.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { advice, brokenRule } from "../../../js/dist/advice.js";
import { SENTENCES } from "../../../js/dist/base/advice/sentences.js";
import { KINDS } from "../../../js/dist/base/error-codes.js";
import { EscaleError } from "../../../js/dist/index.js";
import { values } from "../../../js/dist/values.js";
import { codesOf } from "../../../site/build/errors.mjs";

const table = await readFile(new URL("../../../src/error.rs", import.meta.url), "utf8");
const CODES = codesOf(table).flatMap(({ codes }) => codes);
const GENERAL = SENTENCES.internal;

/** Words of developers, in English and in French. */
const OF_DEVELOPERS = new Set(
  `api argument array boolean bug byte bytes cache callback cascade class collection cookie cursor database def document
  endpoint error exception fetch function gzip header host http id index init instance invalid journal json key kind lock log
  message method migration null object op operation option org parameter payload property protocol proxy query queue
  record request retry rust schema script seq server session shard sdk socket sql stack store string subscribe subscription
  sync synced avion incognito token transaction type typescript undefined url value wasm webassembly websocket
  wipe worker write
  argument base cascade classe curseur en-t\u00eate exception fonction instance jeton journal m\u00e9thode objet param\u00e8tre
  propri\u00e9t\u00e9 protocole requ\u00eate sch\u00e9ma serveur souscription tampon`.split(/\s+/),
);
/** Words of the list that persons know in the sentences that have them. */
const KNOWN = new Set(["value"]);

const errorOf = (code, kind = "A") => new EscaleError({ code, kind, retryable: false, message: "secret message", cure: "secret cure" });
const both = (error, options) => ["en", "fr"].map((language) => advice(error, { ...options, language }));

test("each code of the core's table has a sentence, and no other", () => {
  assert.deepEqual(Object.keys(SENTENCES), CODES.map(({ name }) => name));
  for (const { name, kind } of CODES) assert.deepEqual(both(errorOf(name, kind)), [...SENTENCES[name]]);
});

test("a sentence is short and plain, and its languages differ", () => {
  const seen = new Set();
  for (const [code, pair] of Object.entries(SENTENCES)) {
    assert.equal(pair.length, 2, code);
    for (const text of pair) {
      assert.match(text, /^\p{Lu}[^`<>{}_;:!?]*\.$/u, `${code}: ${text}`);
      assert.ok(text.length <= 140, `${code}: ${text.length} characters`);
      const sentences = text.slice(0, -1).split(". ");
      assert.ok(sentences.length <= 2, `${code}: ${text}`);
      for (const sentence of sentences) assert.ok(sentence.split(/\s+/).length <= 22, `${code}: ${sentence}`);
      for (const word of text.toLowerCase().match(/[\p{L}-]+/gu)) assert.ok(KNOWN.has(word) || !OF_DEVELOPERS.has(word), `${code}: ${word}`);
    }
    assert.notEqual(pair[0], pair[1], code);
    seen.add(pair[0]).add(pair[1]);
  }
  // No text is that of one code in English, and of another in French.
  assert.equal(seen.size, 2 * new Set(Object.values(SENTENCES)).size);
});

/** A rejected `open` does nothing by itself, and each code can be that of one. */
test("no sentence promises that the application acts by itself", () => {
  for (const [code, [english, french]] of Object.entries(SENTENCES)) {
    assert.doesNotMatch(english, /by itself|on its own|automatic|\bwill\b|nothing to do|is tried|tries again|no need/i, code);
    assert.doesNotMatch(french, /de lui-m\u00eame|d'elle-m\u00eame|automati|sera |seront |rien \u00e0 faire|r\u00e9essaie\b/i, code);
  }
});

test("French is for each region that speaks it, and English for all others", () => {
  const error = errorOf("offline", "X");
  const [english, french] = SENTENCES.offline;
  for (const language of ["fr", "FR", "fr-CH", "fr-Latn-CA"]) assert.equal(advice(error, { language }), french, language);
  for (const language of ["en", "de", "frr", "fry", "x-fr", "", undefined]) assert.equal(advice(error, { language }), english, language);
  assert.equal(advice(error), english);
});

test("a sentence of the application wins, in any language", () => {
  const own = { offline: "Kein Netz.", out_of_stock: "Ausverkauft." };
  assert.deepEqual(both(errorOf("offline"), { table: own }), ["Kein Netz.", "Kein Netz."]);
  assert.equal(advice(errorOf("out_of_stock"), { table: own }), "Ausverkauft.");
  assert.equal(advice(errorOf("timeout"), { table: own }), SENTENCES.timeout[0]);
  assert.equal(advice(new Error("x"), { table: { internal: "Ein Fehler." } }), "Ein Fehler.");
});

test("a code of a server's own has the sentence of its kind, also if that is the application's", () => {
  const word = (letter) => advice(errorOf("out_of_stock", letter));
  assert.equal(word("A"), SENTENCES.server_refused[0]);
  assert.equal(word("S"), SENTENCES.forbidden[0]);
  for (const letter of ["C", "O", "X"]) assert.equal(word(letter), SENTENCES.unavailable[0]);
  // With a further language, nothing is English.
  const all = Object.fromEntries(CODES.map(({ name }) => [name, `auf deutsch: ${name}`]));
  for (const letter of Object.keys(KINDS)) assert.match(advice(errorOf("out_of_stock", letter), { table: all }), /^auf deutsch: /);
});

test("anything else that was thrown has the general sentence, and nothing of it is shown", () => {
  const thrown = [undefined, null, "text", 7, new TypeError("secret"), { code: 11 }, { code: "ENOENT" }, { code: "toString" }, { code: "__proto__", kind: "constructor" }];
  for (const each of thrown) {
    assert.deepEqual(both(each), [...GENERAL]);
    assert.deepEqual(both(each, { table: {} }), [...GENERAL]);
  }
});

test("an error that crossed to another place as an object is known by its code", () => {
  assert.equal(advice(JSON.parse(JSON.stringify(errorOf("storage_full", "X")))), SENTENCES.storage_full[0]);
});

/** A class with each word of the rules, and the words as a document breaks them. */
const TASK = {
  key: ["id"],
  properties: {
    title: { type: "string", minLength: 1, maxLength: 4 },
    state: { type: "string", enum: ["open", "done"] },
    hours: { type: "number", minimum: 0.5, maximum: 8 },
    labels: { type: "string[]", maxItems: 2, items: { type: "string", minLength: 2 } },
  },
  required: ["title"],
  additionalProperties: false,
};
const BROKEN = [
  [{ title: null }, "title", undefined, "required", undefined, /complete your entry/],
  [{ title: "" }, "title", undefined, "minLength", 1, /complete your entry/],
  [{ title: "longer" }, "title", undefined, "maxLength", 4, /most characters are 4\./],
  [{ title: "t", state: "later" }, "state", undefined, "enum", undefined, /choose another/],
  [{ title: "t", hours: "5" }, "hours", undefined, "type", "number", /right form/],
  [{ title: "t", hours: 0.25 }, "hours", undefined, "minimum", 0.5, /smallest is 0\.5\./],
  [{ title: "t", hours: 9 }, "hours", undefined, "maximum", 8, /largest is 8\./],
  [{ title: "t", labels: ["aa", "bb", "cc"] }, "labels", undefined, "maxItems", 2, /most entries are 2\./],
  [{ title: "t", labels: ["aa", "b"] }, "labels", 1, "minLength", 2, /fewest characters are 2\./],
  [{ title: "t", secret: "x" }, undefined, undefined, "additionalProperties", undefined, /Something went wrong/],
];

test("a broken rule of values names its field, its word and its limit, and the sentence fits", () => {
  const check = values({ Task: TASK });
  for (const [data, property, index, word, limit, english] of BROKEN) {
    const message = check("Task", { id: "1", ...data });
    const error = new EscaleError({ code: "bad_value", kind: "A", retryable: false, message, cure: "secret cure" });
    assert.deepEqual(brokenRule(error), { className: "Task", property, index, word, limit }, message);
    assert.deepEqual(brokenRule(JSON.parse(JSON.stringify(error))), brokenRule(error), "as an object of another window");
    const [text, french] = both(error);
    assert.match(text, english);
    assert.notEqual(french, text);
    for (const sentence of [text, french]) assert.match(sentence, /^\p{Lu}[^`<>{}_;:!?#]*\.$/u);
    assert.equal(advice(error, { table: { bad_value: "Own." } }), "Own.");
  }
  for (const message of ["Task.title holds a Date", "Task: no such class", "", "x.y: z is 1"]) {
    const error = new EscaleError({ code: "bad_value", kind: "A", retryable: false, message, cure: "" });
    assert.deepEqual([brokenRule(error), advice(error)], [undefined, SENTENCES.bad_value[0]]);
  }
  for (const other of [undefined, null, "Task.title: required", errorOf("bad_value"), errorOf("not_found")]) assert.equal(brokenRule(other), undefined);
});
