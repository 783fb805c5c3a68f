// Forms: the two encodings, numbers and values.
import { check } from "../check.mjs";
import { FORMS, show } from "../client/exchange.mjs";
import { Pairs, Raw, float, same } from "../forms/values.mjs";
import { fresh, note, shaS, uuid } from "../names.mjs";

const at = "forms";
const FORM_NAMES = ["json", "msgpack"];

/** The request of docs/protocol.md in both forms, as bytes; the kit's class Note has the same key. */
const REQUEST_JSON = `{"p":1,"session":"s","ops":[{"id":"1","seq":1,"name":"doc.put","args":{"class":"Note","data":
    {"id":"a","raw":{"$bytes":"AQI"}}},"at":5}],"subs":[["Note",0]]}`;
const REQUEST_MSGPACK = `
    84 a1 70 01 a7 73 65 73 73 69 6f 6e a1 73 a3 6f 70 73 91 85 a2 69 64 a1 31 a3 73 65 71 01 a4 6e 61
    6d 65 a7 64 6f 63 2e 70 75 74 a4 61 72 67 73 82 a5 63 6c 61 73 73 a4 4e 6f 74 65 a4 64 61 74 61 82
    a2 69 64 a1 61 a3 72 61 77 c4 02 01 02 a2 61 74 05 a4 73 75 62 73 91 92 a4 4e 6f 74 65 00`;
const bytesOf = (hex) => Uint8Array.from(hex.match(/[0-9a-f]{2}/g), (pair) => parseInt(pair, 16));

/** A request with one more field in the envelope, which the server skips. */
const oddRequest = (session, more) => new Pairs([["p", 1], ["session", session], ...more]);

const put = (data, more = {}) => ({ id: uuid(), seq: 1, name: "doc.put", args: { class: "Note", data }, at: 5, ...more });

export const forms = [
  check("forms.page-example", {
    says: "A request with one operation, whose `data` is a map:",
    at: "two-messages-in-both-forms",
    hint: "The example is the smallest test of a decoder: begin with it.",
  }, async (kit) => {
    const orgs = { json: kit.org, msgpack: kit.otherOrg };
    const bodies = { json: Buffer.from(REQUEST_JSON), msgpack: bytesOf(REQUEST_MSGPACK) };
    for (const form of FORM_NAMES) {
      const answer = await kit.exchange({ form, body: bodies[form], org: orgs[form] });
      kit.expect(answer.status === 200, "status 200");
      const [part] = answer.reply.parts;
      kit.equal(part.present, ["Esobvcr6wjGzmiPcTaeG7w"], "parts[0].present");
      kit.equal(part.rows[0].data.raw, Uint8Array.of(1, 2), "parts[0].rows[0].data.raw");
      kit.equal(part.rows[0].v, answer.reply.results[0].ok.v, "the version of the row");
      kit.equal(answer.reply.seq, 1, "seq");
    }
  }),
  check("forms.unknown-fields", {
    at,
    says: "A reader skips fields that it does not know.",
    hint: "Do not let a validator refuse further fields: later versions of the protocol add some.",
  }, async (kit) => {
    const session = kit.session();
    const op = { ...put({ id: "a" }), later: { deep: [1] } };
    const { reply } = await session.sync({ ops: [op], subs: [["Note", 0]], later: "x" });
    kit.expect(reply.results[0].ok && reply.parts.length === 1, "the request is answered as if the fields were not there");
  }),
  check("forms.left-out", {
    at: "pull",
    says: "the session's name",
    hint: "ops, subs and epoch may be left out; session may not.",
  }, async (kit) => {
    const session = kit.session();
    kit.expect((await session.ask({})).status === 200, "status 200 for a request without ops, subs and epoch");
    kit.isRefused(await kit.exchange({ message: { p: 1, subs: [] } }), 400, "malformed");
  }),
  check("forms.floats-refused", {
    at,
    says: "In msgpack these numbers have one of the integer types, of any width; a float is refused, even one without a fraction.",
    hint: "Many decoders turn 5.0 and 5 into one number: ask yours for the type on the wire.",
  }, async (kit) => {
    for (const form of FORM_NAMES) {
      const session = kit.session({ form });
      kit.isRefused(await session.ask({ subs: [["Note", float(0)]] }), 400, "malformed");
      kit.isRefused(await session.ask({ ops: [{ ...put({ id: "a" }), seq: float(1) }] }), 400, "malformed");
      const { reply } = await session.sync({ subs: [["Note", 0]] });
      kit.equal(reply.parts[0].present, [], "present, after refused requests only");
    }
  }),
  check("forms.integer-widths", {
    at,
    says: "In msgpack these numbers have one of the integer types, of any width;",
    hint: "1 may arrive in nine bytes, as a signed or as an unsigned integer.",
  }, async (kit) => {
    const session = kit.session({ form: "msgpack" });
    const wide = new Raw({ msgpack: [0xcf, 0, 0, 0, 0, 0, 0, 0, 1], json: "1", value: 1 });
    const signed = new Raw({ msgpack: [0xd3, 0, 0, 0, 0, 0, 0, 0, 5] });
    const exchange = await session.sync({ p: wide, ops: [{ ...put({ id: "a" }), seq: wide, at: signed }] });
    kit.expect(exchange.reply.results[0].ok, "the operation is accepted");
  }),
  check("forms.one-number", {
    at,
    says: "There, 1 and 1.0 are one number, also in `ifVersion`, `release`, `maxLife` and an `integer` index.",
    hint: "Compare numbers, not types: a put of 1.0 over 1 changes nothing.",
  }, async (kit) => {
    for (const form of FORM_NAMES) {
      const session = kit.session({ form });
      const id = fresh();
      const first = await session.put("Note", { id, n: 7, k: 1 });
      const again = await session.put("Note", { id, n: float(7), k: float(1) });
      kit.equal(again.v, first.v, "the version after a put of 7.0 over 7");
      const third = await session.put("Note", { id, n: 8, release: float(2), maxLife: float(40_000_000) }, { ifVersion: float(first.v) });
      kit.expect(third.v > first.v, "ifVersion as a float holds");
    }
  }),
  check("forms.values", {
    at,
    says: "**Values** are strings, finite numbers, booleans, null, bytes, arrays and maps with string keys.",
    hint: "Store the document as msgpack bytes, or in a form that keeps bytes apart from text.",
  }, async (kit) => {
    const data = {
      id: "all",
      text: "h\u00e9 \u{1f600} \u0000 \" \\ /",
      empty: "",
      numbers: [0, -1, 127, 128, 255, 65_536, 4_294_967_296, 2 ** 53 - 1, -(2 ** 53 - 1), 0.1, -2.5e-7, 1e300],
      yes: true,
      no: false,
      none: null,
      bytes: Uint8Array.of(0, 1, 254, 255),
      list: [[], [[]], {}, { a: { b: [null, "x"] } }],
      map: { "": 1, "a b": 2, "\u00fc": 3, _inner: 4, constructor: 5, toString: 6 },
    };
    for (const form of FORM_NAMES) {
      await kit.session({ form }).put("Note", { ...data, id: form });
      for (const other of FORM_NAMES) {
        const { rows, exchange } = await kit.session({ form: other }).pull(note(form));
        const { release, ...found } = rows[0].data;
        const differ = Object.keys({ ...found, ...data }).filter((name) => name !== "id" && !same(found[name], data[name]));
        const detail = differ.map((name) => `${name}: ${show(found[name])}`).join(", ");
        kit.expect(differ.length === 0, `the document that was written as ${form}; as ${other} it differs in ${detail}`, exchange);
        kit.equal(release, 3, "the class's release", exchange);
      }
    }
  }),
  check("forms.bytes-keys", {
    at,
    says: "A map may itself have a key of one or more `$` followed by `bytes`. A writer puts one more `$` in front of such a key. A reader removes one `$` from such a key if it has two or more.",
    hint: "The rule concerns JSON only, at any depth.",
  }, async (kit) => {
    const data = { id: "keys", one: { $bytes: 1 }, two: { $$bytes: [1] }, three: { $$$bytes: 2, x: 1 }, real: Uint8Array.of(1, 2) };
    for (const form of FORM_NAMES) {
      await kit.session({ form }).put("Note", { ...data, id: form });
      for (const other of FORM_NAMES) {
        const { rows } = await kit.session({ form: other }).pull(note(form));
        for (const name of ["one", "two", "three", "real"]) kit.equal(rows[0].data[name], data[name], `data.${name} as ${other}`);
      }
    }
  }),
  check("forms.arguments-are-maps", {
    at,
    says: "So `args.data` of `doc.put` and `args.set` of `doc.patch` are maps in both forms, also inside a `batch`.",
    hint: "Only rows have their data as bytes. Bytes in the place of a map are `bad_value`.",
  }, async (kit) => {
    const session = kit.session({ form: "msgpack" });
    await session.put("Note", { id: "a", n: 1 });
    await session.batch(["doc.put", { class: "Note", data: { id: "b", n: 2 } }], ["doc.patch", { class: "Note", key: ["a"], set: { n: 3 } }]);
    const { rows } = await session.pull("Note");
    kit.equal(rows.map(({ data }) => data.n).sort(), [2, 3], "n of the documents");
    await session.refused("bad_value", "doc.put", { class: "Note", data: FORMS.msgpack.encode({ id: "c" }) });
  }),
  check("forms.refused-values", {
    at,
    says: "Three things are refused: extension types of msgpack, a map with the same key twice, and the key `__proto__`. A request with one of them is `malformed`.",
    hint: "Ask the decoder for them: many keep the last of two values, or make a date of an extension.",
  }, async (kit) => {
    const odd = [
      ["msgpack", new Raw({ msgpack: [0xd4, 5, 1] })],
      ["msgpack", new Raw({ msgpack: [0xd6, 0xff, 0, 0, 0, 1] })],
      ...FORM_NAMES.flatMap((form) => [
        [form, new Pairs([["a", 1], ["a", 2]])],
        [form, new Pairs([["__proto__", 1]])],
      ]),
    ];
    for (const [form, value] of odd) {
      const session = kit.session({ form });
      kit.isRefused(await session.ask({ ops: [put({ id: "a", odd: value })] }), 400, "malformed");
    }
    const { present } = await kit.session().pull("Note");
    kit.equal(present, [], "present, after refused requests only");
  }),
  check("forms.twice-in-envelope", {
    at,
    says: "a map with the same key twice, and the key `__proto__`",
    hint: "Two values of `session` or `ops`: nobody knows which one was meant.",
  }, async (kit) => {
    for (const form of FORM_NAMES) {
      const message = oddRequest("s1", [["session", "s2"], ["subs", []]]);
      kit.isRefused(await kit.exchange({ form, message }), 400, "malformed");
    }
  }),
  check("forms.unreadable", {
    at: "faults",
    says: "an unreadable message, an invalid def or version, an unknown `Content-Type`",
    hint: "Any bytes give an answer, never a broken connection or a 500.",
  }, async (kit) => {
    const bodies = [
      ["json", Buffer.from("{")],
      ["json", Buffer.from("[]")],
      ["json", Buffer.from("")],
      ["json", Buffer.from('{"p":1,"session":"s"} x')],
      ["json", Buffer.from('{"p":1,"session":"s","subs":[["Note",1e999]]}')],
      ["msgpack", Uint8Array.of(0x81)],
      ["msgpack", Uint8Array.of(0xc1)],
      ["msgpack", Uint8Array.of(0x90)],
      ["msgpack", Uint8Array.of(0xdf, 0xff, 0xff, 0xff, 0xff)],
      ["msgpack", Uint8Array.of(0xdb, 0xff, 0xff, 0xff, 0xff, 0x61)],
      ["msgpack", bytesOf(`${REQUEST_MSGPACK} 00`)],
    ];
    for (const [form, body] of bodies) kit.isRefused(await kit.exchange({ form, body }), 400, "malformed");
  }),
  check("forms.large-integers", {
    at,
    says: "An integer beyond 2^53 - 1 becomes the nearest double.",
    hint: "JavaScript readers have no other number. Do not answer with a 64-bit integer that they would round.",
  }, async (kit) => {
    const session = kit.session({ form: "msgpack" });
    const large = new Raw({ msgpack: [0xcf, 0x80, 0, 0, 0, 0, 0, 0, 1], json: "9223372036854775809" });
    await session.put("Note", { id: "large", k: large });
    for (const form of FORM_NAMES) {
      const { rows } = await kit.session({ form }).pull(`Note@${shaS("large")}`);
      kit.equal(rows[0].data.k, 2 ** 63, "k");
    }
  }),
];
