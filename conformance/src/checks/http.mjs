// HTTP: headers, forms of refusals, pages on another origin.
import { check } from "../check.mjs";
import { FORMS } from "../client/exchange.mjs";
import { fresh, uuid } from "../names.mjs";

const at = "http";
const EMPTY = { p: 1, session: "s", subs: [] };

export const http = [
  check("http.content-type-parameters", {
    at,
    says: "the server ignores parameters after a `;`.",
    hint: "`application/json; charset=utf-8` is JSON.",
  }, async (kit) => {
    for (const form of Object.keys(FORMS)) {
      const headers = { "Content-Type": `${FORMS[form].type}; charset=utf-8` };
      const answer = await kit.exchange({ form, headers, message: EMPTY });
      kit.expect(answer.status === 200 && answer.answerForm === form, `a reply as ${form}`);
    }
  }),
  check("http.content-type-unknown", {
    at,
    says: "Any other type is 400 `malformed`.",
    hint: "The body of this refusal is JSON.",
  }, async (kit) => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", undefined]) {
      const answer = await kit.exchange({ headers: { "Content-Type": type }, message: EMPTY });
      kit.isRefused(answer, 400, "malformed");
      kit.equal(answer.answerForm, "json", "the form of the refusal");
    }
  }),
  check("http.fault-form", {
    at,
    says: "The body of a refusal is a [fault](#faults), in the form of the request. It is JSON if that form is not known.",
    hint: "Choose the form from the Content-Type before anything can fail.",
  }, async (kit) => {
    for (const form of Object.keys(FORMS)) {
      const answer = await kit.exchange({ form, message: { ...EMPTY, p: 2 } });
      kit.isRefused(answer, 400, "wrong_protocol");
      kit.equal(answer.answerForm, form, "the form of the refusal");
    }
  }),
  check("http.paths", {
    at: "faults",
    says: "no such path, or another method",
    hint: "404 or 405 `not_found`, as a fault; not the page of a framework.",
  }, async (kit) => {
    const get = await kit.exchange({ method: "GET" });
    kit.expect([404, 405].includes(get.status), "status 404 or 405 for a GET of sync");
    kit.isFault(get.reply, "not_found");
    const other = await kit.exchange({ path: "nothing", message: EMPTY });
    kit.isRefused(other, 404, "not_found");
    const put = await kit.exchange({ method: "PUT", message: EMPTY });
    kit.expect([404, 405].includes(put.status), "status 404 or 405 for a PUT of sync");
  }),
  check("http.files", {
    at: "files",
    says: "It then answers all three with 501 `not_supported`",
    hint: "A server with files stores `abc` under its hash, gives it back, and refuses other bytes under that name.",
  }, async (kit) => {
    const [bytes, sha] = [Buffer.from("abc"), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"];
    const path = `file/${sha}`;
    const have = { path: "files", message: { p: 1, have: [sha] } };
    const put = await kit.exchange({ method: "PUT", path, body: bytes });
    if (put.status === 501) {
      kit.isRefused(put, 501, "not_supported");
      kit.isRefused(await kit.exchange({ method: "GET", path }), 501, "not_supported");
      kit.isRefused(await kit.exchange(have), 501, "not_supported");
      return;
    }
    kit.equal(put.status, 200, "the status of the PUT");
    kit.isRefused(await kit.exchange({ method: "PUT", path, body: Buffer.from("abd") }), 422, "file_damaged");
    kit.equal((await kit.exchange({ method: "GET", path })).status, 200, "the status of the GET");
    const absent = await kit.exchange({ method: "GET", path: `file/${"A".repeat(43)}` });
    kit.isRefused(absent, 404, "not_found");
    kit.equal((await kit.exchange(have)).reply.there, [sha], "there");
  }),
  check("http.live-without-upgrade", {
    at: "socket",
    says: "A `GET` of `live` without an upgrade is 400 `malformed`.",
    hint: "The fault is the body of the answer. A server without a socket is checked with --no-socket.",
  }, async (kit) => {
    kit.needsSocket();
    kit.isRefused(await kit.exchange({ method: "GET", path: "live" }), 400, "malformed");
  }),
  check("http.preflight", {
    at,
    says: "A server answers every `OPTIONS` of an allowed origin, on any path:",
    hint: "Without the preflight no page on another origin works: msgpack and Authorization always cause one.",
  }, async (kit) => {
    for (const path of ["sync", "live", "anything"]) {
      const headers = {
        Origin: kit.options.origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
      };
      const answer = await kit.exchange({ method: "OPTIONS", path, headers, token: undefined });
      kit.expect(answer.status === 204 || answer.status === 200, "status 204");
      const allowed = (name) => (answer.headers[`access-control-allow-${name}`] ?? "").toLowerCase();
      kit.expect([kit.options.origin, "*"].includes(allowed("origin")), "Access-Control-Allow-Origin with the origin, or *");
      kit.expect(/post/.test(allowed("methods")), "Access-Control-Allow-Methods with POST");
      for (const name of ["authorization", "content-type"]) kit.expect(allowed("headers").includes(name), `Access-Control-Allow-Headers with ${name}`);
      kit.expect(Number(answer.headers["access-control-max-age"]) > 0, "Access-Control-Max-Age");
      if (allowed("origin") !== "*") kit.expect(/origin/i.test(answer.headers.vary ?? ""), "Vary: Origin");
      kit.expect(allowed("private-network") === "", "no Access-Control-Allow-Private-Network, because nobody asked");
    }
  }),
  check("http.private-network", {
    at,
    says: "If the `OPTIONS` request has `Access-Control-Request-Private-Network`, the answer also has `Access-Control-Allow-Private-Network: true`.",
    hint: "Browsers ask this before a public page calls a server of the local network.",
  }, async (kit) => {
    const headers = { Origin: kit.options.origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true" };
    const answer = await kit.exchange({ method: "OPTIONS", headers, token: undefined });
    kit.equal(answer.headers["access-control-allow-private-network"], "true", "Access-Control-Allow-Private-Network");
  }),
  check("http.exposed-headers", {
    at,
    says: "Every other answer, refusals included, has these three:",
    hint: "Without Access-Control-Expose-Headers a page cannot read Retry-After, and tries again too early.",
  }, async (kit) => {
    const headers = { Origin: kit.options.origin };
    const answers = [
      await kit.exchange({ headers, message: EMPTY }),
      await kit.exchange({ headers, message: { ...EMPTY, p: 2 } }),
      await kit.exchange({ headers, path: "nothing", message: EMPTY }),
      await kit.exchange({ headers, body: Buffer.from("{") }),
      await kit.exchange({ headers, url: `${kit.options.url}/a%20b/sync`, message: EMPTY }),
    ];
    for (const answer of answers) {
      const allowed = answer.headers["access-control-allow-origin"];
      kit.expect([kit.options.origin, "*"].includes(allowed), `Access-Control-Allow-Origin with the origin, or *, on ${answer.status}`, answer);
      kit.expect(/retry-after/i.test(answer.headers["access-control-expose-headers"] ?? ""), `Access-Control-Expose-Headers: Retry-After on ${answer.status}`, answer);
      if (allowed !== "*") kit.expect(/origin/i.test(answer.headers.vary ?? ""), `Vary: Origin on ${answer.status}`, answer);
    }
  }),
  check("http.other-origin", {
    at,
    says: "An origin that is not allowed gets 403 without any of these headers.",
    hint: "A server that allows every origin answers this one like any other.",
  }, async (kit) => {
    const headers = { Origin: `https://${fresh("kit-")}.invalid` };
    const op = { id: uuid(), seq: 1, name: "doc.put", args: { class: "Note", data: { id: "a" } }, at: 1 };
    const answer = await kit.exchange({ headers, message: { ...EMPTY, ops: [op] } });
    if (answer.status === 200) {
      kit.expect([headers.Origin, "*"].includes(answer.headers["access-control-allow-origin"]), "403, or Access-Control-Allow-Origin");
      return;
    }
    kit.isRefused(answer, 403, "forbidden");
    const named = Object.keys(answer.headers).filter((name) => name.startsWith("access-control-"));
    kit.equal(named, [], "the headers of CORS on the refusal");
    kit.equal((await kit.session().pull("Note")).present, [], "present, after a refused request", kit.last);
  }),
  check("http.encodings", {
    at,
    says: "A server may compress a reply as the request's `Accept-Encoding` allows.",
    hint: "Compress the encoded message, and say so in `Content-Encoding` and `Vary`.",
    rule: "R91",
  }, async (kit) => {
    const session = kit.session({ form: "json" });
    await session.put("Note", { id: "a", text: "x".repeat(5_000) });
    const ask = (encodings) => session.ask({ subs: [["Note", 0]] }, { headers: { "Accept-Encoding": encodings } });
    const plain = await ask("identity");
    kit.equal(plain.headers["content-encoding"], undefined, "the encoding of a reply for a caller that accepts none");
    const { reply, headers } = await ask("gzip");
    const encoding = headers["content-encoding"];
    if (encoding === undefined) return;
    kit.equal(encoding, "gzip", "the encoding of a reply for a caller that accepts gzip alone");
    kit.expect(/accept-encoding/i.test(headers.vary ?? ""), "Vary: Accept-Encoding");
    kit.equal(reply.parts[0].rows.map(({ data }) => data.text.length), [5_000], "the lengths of the texts after decompression");
  }),
];
