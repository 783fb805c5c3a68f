// Promises that every answer keeps, to any request: its form, its fields and its numbers.
import { isMap, wasFloat } from "../forms/values.mjs";
import { KINDS } from "../faults.mjs";

const VERSION_END = 2 ** 53;
const MINUTES_MAX = 150_119_987_579;
export const PK = /^[-\w.:]{1,1024}$/;

export const list = (value) => (Array.isArray(value) ? value : []);
const isCount = (holder, key) => {
  const value = holder[key];
  return Number.isSafeInteger(value) && value >= 0 && value < VERSION_END && !wasFloat(holder, key);
};

/** Visits each map that stands for a part, row, result or fault, with its place. */
function* places(reply) {
  yield [reply, "", "reply"];
  for (const [i, result] of list(reply.results).entries()) {
    if (!isMap(result)) continue;
    yield [result, `results[${i}].`, "result"];
    if (isMap(result.ok)) yield [result.ok, `results[${i}].ok.`, "ok"];
    if (isMap(result.fault)) yield [result.fault, `results[${i}].fault.`, "fault"];
    if (isMap(result.fault?.doc)) yield [result.fault.doc, `results[${i}].fault.doc.`, "row"];
  }
  for (const [i, part] of list(reply.parts).entries()) {
    if (!isMap(part)) continue;
    yield [part, `parts[${i}].`, "part"];
    if (isMap(part.fault)) yield [part.fault, `parts[${i}].fault.`, "fault"];
    for (const [n, row] of list(part.rows).entries()) if (isMap(row)) yield [row, `parts[${i}].rows[${n}].`, "row"];
  }
}

const isText = (value) => typeof value === "string" && value !== "";
const isEntry = (one) => Array.isArray(one) && one.length === 2 && PK.test(one[0]) && isCount(one, 1);

const isTree = (one) => Array.isArray(one) && one.length === 3 && isText(one[0]) && PK.test(one[1]) && isCount(one, 2) && one[2] > 0;

/** The fields of each kind of map: whether one is required, and how it is checked. */
const FIELDS = {
  reply: {
    p: ["required", (map) => isCount(map, "p") && map.p === 1],
    epoch: ["required", ({ epoch }) => isEpoch(epoch)],
    now: ["required", isCount],
    delta: ["required", isCount],
    seq: ["", isCount],
    results: ["", ({ results }) => Array.isArray(results) && results.every(isMap)],
    parts: ["", ({ parts }) => Array.isArray(parts) && parts.every(isMap)],
    restriction: ["", (map) => isCount(map, "restriction") && map.restriction <= 3],
    role: ["", ({ role }) => ["read", "write", "admin"].includes(role)],
  },
  result: {
    id: ["required", ({ id }) => isText(id)],
    ok: ["", ({ ok }) => isMap(ok)],
    fault: ["", ({ fault }) => isMap(fault)],
  },
  ok: { v: ["required", isCount], trees: ["", ({ trees }) => Array.isArray(trees) && trees.every(isTree)] },
  part: {
    def: ["required", ({ def }) => isText(def)],
    rows: ["", ({ rows }) => Array.isArray(rows) && rows.every(isMap)],
    left: ["", ({ left }) => Array.isArray(left) && left.every(isEntry)],
    present: ["", ({ present }) => Array.isArray(present) && present.every((pk) => PK.test(pk))],
    next: ["", ({ next }) => isText(next) && Buffer.byteLength(next) <= 1024],
    total: ["", isCount],
    floor: ["", isCount],
    n: ["", isCount],
    fault: ["", ({ fault }) => isMap(fault)],
  },
  row: {
    pk: ["required", ({ pk }) => typeof pk === "string" && PK.test(pk)],
    v: ["required", isCount],
    deleted: ["", ({ deleted }) => typeof deleted === "boolean"],
    maxLife: ["", (map) => Number.isSafeInteger(map.maxLife) && map.maxLife >= 0 && map.maxLife <= MINUTES_MAX && !wasFloat(map, "maxLife")],
    data: ["", ({ data }) => isMap(data)],
  },
  fault: {
    code: ["required", ({ code }) => isText(code)],
    kind: ["required", ({ kind }) => "ANBDSCXO".includes(kind) && kind.length === 1],
    phase: ["", (map) => isCount(map, "phase") && map.phase <= 5],
    message: ["", ({ message }) => typeof message === "string"],
  },
};

export const isEpoch = (epoch) =>
  Array.isArray(epoch) && epoch.length === 2 && isCount(epoch, 0) && typeof epoch[1] === "string" && Buffer.byteLength(epoch[1]) <= 1024;

function fieldsOf(reply) {
  const mistakes = [];
  for (const [map, place, name] of places(reply)) {
    for (const [field, [isRequired, isGood]] of Object.entries(FIELDS[name])) {
      if (!Object.hasOwn(map, field)) {
        if (isRequired) mistakes.push(`${place}${field} is missing`);
      } else if (map[field] !== null && !isGood(map, field)) mistakes.push(`${place}${field} is not what the table says`);
    }
  }
  return mistakes;
}

function nullsOf(reply) {
  const mistakes = [];
  for (const [map, place, name] of places(reply)) {
    for (const field of Object.keys(FIELDS[name])) if (map[field] === null) mistakes.push(`${place}${field} is null`);
  }
  return mistakes;
}

function faultsOf({ reply, status }) {
  const faults = status === 200 ? [...places(reply)].filter(([, , name]) => name === "fault") : [[reply, "", "fault"]];
  const mistakes = [];
  for (const [fault, place] of faults) {
    const kind = Object.hasOwn(KINDS, fault.code) ? KINDS[fault.code] : undefined;
    if (kind && fault.kind !== kind) mistakes.push(`${place}kind of ${fault.code} is ${fault.kind}, not ${kind}`);
  }
  return mistakes;
}

export const formWatches = [
  {
    id: "watch.answer-form",
    at: "forms",
    says: "A server answers in the form of the request.",
    hint: "Decode with the request's Content-Type, and encode the answer with the same one.",
    test: ({ request, answerForm, bytes }) => {
      const form = request.headers["Content-Type"]?.startsWith("application/msgpack") ? "msgpack" : "json";
      if (bytes.length === 0 || request.method !== "POST" || answerForm === form) return [];
      return [`the answer is ${answerForm ?? "of no known type"}, and the request ${form}`];
    },
  },
  {
    id: "watch.readable",
    at: "forms",
    says: "A document's `data` in a *row* is bytes in msgpack, and these bytes are a msgpack map. In JSON it is an object.",
    hint: "In msgpack, encode the document by itself, and put the result into the row as bin.",
    test: ({ mistakes }) => mistakes,
  },
  {
    id: "watch.fields",
    at: "forms",
    says: "The table of each message says which fields are required, and the value of a field that is left out.",
    hint: "Numbers are integers: in msgpack of an integer type, in JSON without a point.",
    test: ({ status, reply }) => (status === 200 ? fieldsOf(reply) : []),
  },
  {
    id: "watch.no-null",
    at: "forms",
    says: "It does not write `null` instead: sessions refuse `null` in most fields, for example `\"left\": null`.",
    hint: "Leave a field out if it has no value.",
    test: ({ status, reply }) => (status === 200 ? nullsOf(reply) : []),
  },
  {
    id: "watch.no-store",
    at: "http",
    says: "Every answer has `Cache-Control: no-store` and its own `Content-Type`.",
    hint: "Add the header to refusals, too.",
    test: ({ headers, bytes }) => [
      ...(/no-store/.test(headers["cache-control"] ?? "") ? [] : [`Cache-Control is ${headers["cache-control"] ?? "missing"}`]),
      ...(bytes.length && !headers["content-type"] ? ["Content-Type is missing"] : []),
    ],
    isForOptions: false,
    isOfHeaders: true,
  },
  {
    id: "watch.refusal-is-fault",
    at: "http",
    says: "The body of a refusal is a [fault](#faults), in the form of the request.",
    hint: "An error page of a framework is no fault: catch its errors, and answer with `{ code, kind, phase, message }`.",
    test: ({ status, reply, request }) => {
      if (status === 200 || request.method === "OPTIONS") return [];
      if (!isMap(reply)) return [`the body of ${status} is no fault`];
      const mistakes = Object.entries(FIELDS.fault).flatMap(([field, [isRequired, isGood]]) => {
        if (!Object.hasOwn(reply, field)) return isRequired ? [`${field} is missing`] : [];
        return isGood(reply, field) ? [] : [`${field} is not what the table says`];
      });
      return mistakes;
    },
  },
  {
    id: "watch.fault-kind",
    at: "faults",
    says: "A session decides by the kind alone.",
    hint: "Look the kind of each code up in the tables of the page.",
    test: (exchange) => (isMap(exchange.reply) ? faultsOf(exchange) : []),
  },
];
