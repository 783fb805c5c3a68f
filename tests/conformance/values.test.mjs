// R98: the reference server and `escale/values` refuse the same documents as a validator of JSON Schema, in the same words.
// VALUES says how many random documents are compared.
import assert from "node:assert/strict";
import { test } from "node:test";

import Ajv from "ajv/dist/2020.js";
import { defineSchema } from "escale";
import { values } from "escale/values";

import { count, startSeed } from "../../testkit/effort.mjs";
import { randomFrom } from "../e2e/support/in-page/random.js";
import { makeServer } from "../e2e/support/server.mjs";

const DOCUMENTS = count("VALUES", 4_000);
const CLASSES = 40;
/** Writes in one request. */
const AT_ONCE = 100;
const MAX = Number.MAX_SAFE_INTEGER;

const KINDS = ["string", "integer", "number", "boolean", "string[]", "number[]", "boolean[]", "any"];
const STRINGS = ["", "a", "abc", "\u00e9", "e\u0301", "\u{1f600}\u{1f600}", "open", "done", "x".repeat(12)];
const NUMBERS = [-3, -1, 0, 0.5, 1, 2.25, 3, 10, 1e9, MAX, 2 ** 53, 1e21];

/** Random classes and documents of one seed. */
function chances(seed) {
  const below = randomFrom(seed);
  const is = (percent) => below(100) < percent;
  const pick = (from) => from[below(from.length)];
  const some = (from) => from.filter(() => is(40));
  const scalar = (kind) => {
    if (kind === "boolean") return is(50);
    if (kind === "string") return pick(STRINGS);
    if (kind === "integer") return pick(NUMBERS.filter(Number.isSafeInteger));
    return pick(NUMBERS);
  };
  // Larger ones have another text in each language.
  const limits = NUMBERS.filter((n) => n < 1e21);
  const between = (low, high, from) => {
    const [a, b] = [pick(from), pick(from)].sort((one, other) => one - other);
    return { ...(is(50) && { [low]: a }), ...(is(50) && { [high]: b }) };
  };
  const words = (kind) => {
    if (kind === "string") return { ...between("minLength", "maxLength", [0, 1, 2, 3, 5]), ...(is(20) && { enum: some(STRINGS).concat("open") }) };
    if (kind === "integer" || kind === "number") return { ...between("minimum", "maximum", limits), ...(is(20) && { enum: some(NUMBERS).concat(1) }) };
    if (kind === "boolean") return is(20) ? { enum: [true] } : {};
    if (kind === "any") return is(30) ? { enum: ["open", 1, false] } : {};
    const items = kind === "boolean[]" ? {} : words(kind.slice(0, -2));
    return { ...(is(50) && { maxItems: below(4) }), ...(Object.keys(items).length > 0 && { items }) };
  };
  const aClass = () => {
    const names = ["p", "q", "r", "s"];
    const properties = Object.fromEntries(names.map((name) => {
      const kind = pick(KINDS);
      return [name, is(20) ? kind : { type: kind, ...words(kind) }];
    }));
    return { key: ["id"], properties, required: some(names), ...(is(50) && { additionalProperties: is(30) }) };
  };
  const value = (kind) => {
    if (is(4)) return null;
    const of = is(5) || kind === "any" ? pick(KINDS.slice(0, 4)) : kind;
    if (!of.endsWith("[]")) return is(3) ? { deep: [1] } : scalar(of);
    return Array.from({ length: below(5) }, () => (is(5) ? null : scalar(is(5) ? pick(KINDS.slice(0, 4)) : of.slice(0, -2))));
  };
  const aDocument = (declared, id) => {
    const data = { id };
    for (const [name, property] of Object.entries(declared.properties)) if (is(85)) data[name] = value(property.type ?? property);
    if (is(5)) data.other = value("any");
    return data;
  };
  return { aClass, aDocument, pick };
}

/** A class as JSON Schema. `null` counts as absent. */
function jsonSchema({ properties, required, additionalProperties = true }) {
  const plain = (kind) => {
    if (kind === "any") return {};
    if (kind === "integer") return { type: "integer", minimum: -MAX, maximum: MAX };
    return kind.endsWith("[]") ? { type: "array", items: plain(kind.slice(0, -2)) } : { type: kind };
  };
  const ruled = ({ type, items, ...words }) => {
    const rule = { ...plain(type), ...words };
    if (type === "integer") {
      rule.minimum = Math.max(-MAX, words.minimum ?? -MAX);
      rule.maximum = Math.min(MAX, words.maximum ?? MAX);
    }
    return items ? { ...rule, items: ruled({ type: type.slice(0, -2), ...items }) } : rule;
  };
  const of = (name, property) => {
    const rule = ruled(typeof property === "string" ? { type: property } : property);
    return required.includes(name) ? { allOf: [rule, { not: { type: "null" } }] } : { anyOf: [rule, { type: "null" }] };
  };
  const all = Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, of(name, property)]));
  return { type: "object", properties: { id: { type: "string" }, ...all }, required: ["id", ...required], additionalProperties };
}

test("r98_random_documents_are_refused_as_json_schema_says", { timeout: 60_000 + DOCUMENTS * 20 }, async (t) => {
  const seed = startSeed();
  console.log(`# ESCALE_SEED=${seed}`);
  const { aClass, aDocument, pick } = chances(seed);
  const classes = Object.fromEntries(Array.from({ length: CLASSES }, (_, n) => [`C${n}`, aClass()]));
  const { check } = defineSchema(classes, { values });
  const ajv = new Ajv({ strict: false });
  const validators = Object.fromEntries(Object.entries(classes).map(([name, declared]) => [name, ajv.compile(jsonSchema(declared))]));
  const server = await (await makeServer(t, { schema: classes })).start();
  const counts = { accepted: 0, refused: 0 };
  let seq = 0;
  for (let done = 0; done < DOCUMENTS; done += AT_ONCE) {
    const written = Array.from({ length: AT_ONCE }, (_, n) => {
      const name = pick(Object.keys(classes));
      return { name, data: aDocument(classes[name], `${done + n}`) };
    });
    const ops = written.map(({ name, data }) => ({ id: `v-${++seq}`, seq, name: "doc.put", args: { class: name, data }, at: 0 }));
    const response = await fetch(`${server.url}/o/sync`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ p: 1, session: "values", ops, subs: [] }),
    });
    const { results } = await response.json();
    assert.equal(results?.length, AT_ONCE, `${response.status}`);
    results.forEach(({ fault }, n) => {
      const { name, data } = written[n];
      const at = `${name} ${JSON.stringify(classes[name])}: ${JSON.stringify(data)}`;
      const isValid = validators[name](data);
      const broken = check(name, data);
      assert.equal(broken === undefined, isValid, `the package says ${broken} of ${at}`);
      assert.equal(fault === undefined, isValid, `the server says ${JSON.stringify(fault)} of ${at}`);
      if (fault) assert.deepEqual([fault.code, fault.message], ["bad_value", broken], at);
      counts[isValid ? "accepted" : "refused"] += 1;
    });
  }
  console.log(`# ${counts.accepted} documents accepted, ${counts.refused} refused, by all three`);
  assert.ok(Math.min(counts.accepted, counts.refused) > DOCUMENTS / 50);
});
