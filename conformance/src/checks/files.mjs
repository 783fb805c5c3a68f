// Files: objects under their hashes, and documents that reference them. A server without files skips these checks.
import { check } from "../check.mjs";
import { CHUNK_BYTES, Files, fileOf, filesOf, freshBytes, referenceTo, shaOf } from "../client/files.mjs";
import { wasFloat } from "../forms/values.mjs";
import { isEpoch } from "../watch/form.mjs";

const at = "files";
const WEEK_MS = 7 * 86_400_000;
const FILE_BYTES_MAX = 2 ** 35;

const sorted = (names) => [...(names ?? [])].sort();
/** A file of two chunks, the second one short. */
const twoChunks = () => [freshBytes(CHUNK_BYTES), freshBytes(5)];
const album = (id, more) => ["doc.put", { class: "Album", data: { id, ...more } }];

/** Other texts of one hash, and a text of another length. */
function badNames(sha) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return [`${sha.slice(0, -1)}${digits[digits.indexOf(sha.at(-1)) + 1]}`, `${sha}=`, sha.slice(0, -1), `+${sha.slice(1)}`];
}

/** Expects a time until which an object is kept. `now` is the server's time from before. */
function isKept(kit, { reply }, now) {
  kit.expect(Number.isSafeInteger(reply?.until) && !wasFloat(reply, "until"), "until as an integer");
  kit.expect(reply.until >= now + WEEK_MS - kit.options.skew, "until at least seven days from now");
}

export const files = [
  check("files.stored", {
    at,
    rule: "R26",
    says: "Its `Content-Type` does not count. The answer is JSON, and so is each refusal. Repeated, it is 200 again, and nothing is stored twice.",
    hint: "The bytes come back as they are, as `application/octet-stream`. The empty file is an object, too.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const { now } = (await kit.session().sync({})).reply;
    const types = [undefined, "text/plain; charset=utf-8", "application/msgpack"];
    for (const [i, bytes] of [Buffer.alloc(0), Buffer.from("abc"), freshBytes(CHUNK_BYTES)].entries()) {
      for (const type of [types[i], "image/png"]) {
        const stored = await files.store(bytes, { headers: { "Content-Type": type } });
        kit.equal(stored.answerForm, "json", "the form of the answer");
        isKept(kit, stored, now);
      }
      const { headers } = await files.isThere(bytes);
      kit.equal(headers["content-type"], "application/octet-stream", "the Content-Type of an object");
    }
  }),
  check("files.have", {
    at,
    says: "those of the names whose objects are there, in their order",
    hint: "Answer in the form of the request, with the epoch of the org. To ask is to confirm.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const [first, second] = [freshBytes(), freshBytes()];
    const [a, b, absent] = [shaOf(first), shaOf(second), shaOf(freshBytes())];
    kit.equal(await files.there(a, b), [], "there, before an upload", kit.last);
    for (const bytes of [second, first]) await files.store(bytes);
    const { epoch, now } = (await kit.session().sync({})).reply;
    for (const [asked, wanted] of [[[a, absent, b], [a, b]], [[b, a], [b, a]], [[absent], []], [[], []]]) {
      const answer = await files.have(asked);
      kit.equal(answer.status, 200, "the status of a have");
      kit.equal(answer.answerForm, answer.request.form, "the form of the answer");
      kit.equal(answer.reply.there ?? [], wanted, "there");
      kit.expect(answer.reply.there !== null, "there as a list, or left out");
      kit.expect(isEpoch(answer.reply.epoch), "an epoch");
      kit.equal(answer.reply.epoch, epoch, "the epoch");
      isKept(kit, answer, now);
    }
    const many = Array.from({ length: 1001 }, () => shaOf(freshBytes()));
    kit.isRefused(await files.have(many), 413, "too_large");
    kit.equal(await files.there(...many.slice(2), a), [a], "there, of 1,000 names", kit.last);
    kit.isRefused(await files.have([a], { message: { p: 2 } }), 400, "wrong_protocol");
    kit.isRefused(await files.have([a], { headers: { "Content-Type": "text/plain" } }), 400, "malformed");
  }),
  check("files.names", {
    at,
    rule: "R23",
    says: "Any other name is 404 `not_found` in a path, `malformed` in `have`, and `bad_value` in a document.",
    hint: "Decoders of base64 drop the two bits behind the hash. Compare the last character with the list.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const session = kit.session();
    const bytes = freshBytes();
    await files.store(bytes);
    const { sha, size } = referenceTo(bytes);
    for (const name of badNames(sha)) {
      kit.isRefused(await files.get(name), 404, "not_found");
      kit.isRefused(await files.put(bytes, { sha: name }), 404, "not_found");
      kit.isRefused(await files.have([sha, name]), 400, "malformed");
      await session.refused("bad_value", ...album("a", { photo: { sha: name, size } }));
    }
    kit.equal((await session.pull("Album")).present, [], "present", kit.last);
  }),
  check("files.refused", {
    at,
    rule: "R23",
    says: "the bytes have another hash. Nothing was stored",
    hint: "Hash the whole body before anything is stored under its name. An object has at most 2^20 bytes.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const bytes = freshBytes(1000);
    const sha = shaOf(bytes);
    for (const other of [freshBytes(1000), bytes.subarray(1), Buffer.concat([bytes, bytes]), Buffer.alloc(0)]) {
      const answer = await files.put(other, { sha, headers: { "Content-Type": "application/msgpack" } });
      kit.isRefused(answer, 422, "file_damaged");
      kit.equal(answer.answerForm, "json", "the form of the refusal");
      await files.isAbsent(sha);
    }
    await files.store(bytes);
    kit.isRefused(await files.put(freshBytes(1000), { sha }), 422, "file_damaged");
    await files.isThere(bytes);
    const large = freshBytes(CHUNK_BYTES + 1);
    kit.isRefused(await files.put(large, { headersFirst: true }), 413, "too_large");
    await files.isAbsent(shaOf(large));
    // Without a length in the header, only the bytes show that there are too many.
    const unannounced = { "Content-Length": undefined, "Transfer-Encoding": "chunked" };
    kit.isRefused(await files.put(large, { headers: unannounced }), 413, "too_large");
    await files.isAbsent(shaOf(large));
  }),
  check("files.list", {
    at,
    rule: "R26",
    says: "If chunks are missing, the server stores nothing, and names them in the fault's `files`.",
    hint: "A list is 32 bytes for each chunk. The chunks come in any order, from several clients at once.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const chunks = twoChunks();
    const { list, sha, size } = fileOf(chunks);
    const [a, b] = chunks.map(shaOf);
    const lacks = async (...names) => {
      const answer = await files.put(list, { query: `?list=${size}` });
      kit.isRefused(answer, 409, "file_missing");
      kit.equal(sorted(answer.reply.files), sorted(names), "files");
      await files.isAbsent(sha);
    };
    await lacks(a, b);
    await files.store(chunks[1]);
    await lacks(a);
    // Two clients send each chunk at once.
    for (const chunk of chunks) await Promise.all([files, new Files(kit)].map((client) => client.store(chunk)));
    for (let time = 0; time < 2; time++) await files.store(list, { query: `?list=${size}` });
    for (const object of [list, ...chunks]) await files.isThere(object);
    kit.equal(await files.there(sha, b, a), [sha, b, a], "there", kit.last);
  }),
  check("files.list-refused", {
    at,
    rule: "R23",
    says: "a list of another length, or with chunks of other lengths; `list=` with at most 2^20, because such a file is one object",
    hint: "Each chunk has 2^20 bytes, but the last one may have fewer. Take the number as 64 bits.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const chunks = twoChunks();
    for (const chunk of chunks) await files.store(chunk);
    const { list, sha, size } = fileOf(chunks);
    for (const wrong of [size + 1, size - 1, size + CHUNK_BYTES, CHUNK_BYTES, 5, 0]) {
      kit.isRefused(await files.put(list, { query: `?list=${wrong}` }), 400, "bad_value");
    }
    const turned = fileOf([...chunks].reverse());
    const single = fileOf(chunks.slice(0, 1));
    kit.isRefused(await files.put(turned.list, { query: `?list=${turned.size}` }), 400, "bad_value");
    kit.isRefused(await files.put(single.list, { query: `?list=${single.size}` }), 400, "bad_value");
    // A server may look at the length of the list first.
    const beyond = await files.put(list, { query: `?list=${FILE_BYTES_MAX + 1}` });
    kit.expect([400, 413].includes(beyond.status), "400 or 413 for a file above 32 GiB");
    kit.isFault(beyond.reply, beyond.status === 413 ? "too_large" : "bad_value");
    for (const query of ["?list=", "?list=x", "?list=-1", `?list=%2B${size}`, `?list=${size}.0`, `?list=${2n ** 64n}`, "?size=5", `?list=${size}&size=5`]) {
      kit.isRefused(await files.put(list, { query }), 400, "malformed");
    }
    for (const refused of [sha, turned.sha, single.sha]) await files.isAbsent(refused);
  }),
  check("files.ranges", {
    at,
    says: "With a `Range` of one range of bytes, the answer is 206 with `Content-Range`. A range that begins behind the end is 416, and its body does not count. A server ignores a range of another form, and answers 200.",
    hint: "The last byte of a range is included, and may be behind the end. `bytes=-3` are the last three.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const bytes = freshBytes(10);
    const sha = shaOf(bytes);
    await files.store(bytes);
    for (const [range, first, last] of [["2-4", 2, 4], ["0-0", 0, 0], ["7-", 7, 9], ["0-", 0, 9], ["8-99", 8, 9], [`8-${2n ** 64n}`, 8, 9], ["-3", 7, 9]]) {
      const answer = await files.get(sha, { range: `bytes=${range}` });
      kit.equal(answer.status, 206, `the status of the range ${range}`);
      kit.equal(answer.headers["content-range"], `bytes ${first}-${last}/10`, "Content-Range");
      kit.equal(answer.bytes, new Uint8Array(bytes.subarray(first, last + 1)), "the bytes of a range");
      kit.equal(answer.headers["content-type"], "application/octet-stream", "the Content-Type of a range");
    }
    for (const range of ["10-", "12-20", `${2n ** 64n}-`]) {
      kit.equal((await files.get(sha, { range: `bytes=${range}` })).status, 416, `the status of the range ${range}`);
    }
    for (const range of ["bytes=0-1,4-5", "bytes=4-2", "bytes=-", "bytes=a-b", "chunks=0-1"]) {
      const answer = await files.get(sha, { range });
      kit.equal(answer.status, 200, `the status of the range ${range}`);
      kit.equal(answer.bytes, new Uint8Array(bytes), "the bytes of an object");
    }
  }),
  check("files.other-origin", {
    at: "http",
    says: "A server without files may leave out `PUT`, `Range` and `Content-Range`.",
    hint: "A page on another origin sends no PUT and no Range without them, and cannot read which bytes it got.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const bytes = freshBytes();
    const [sha, Origin] = [shaOf(bytes), kit.options.origin];
    const asked = { Origin, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization,content-type,range" };
    const { headers } = await kit.exchange({ method: "OPTIONS", path: `file/${sha}`, headers: asked, token: undefined });
    const listed = (name) => (headers[`access-control-allow-${name}`] ?? "").toLowerCase().split(",").map((one) => one.trim());
    for (const method of ["post", "get", "put"]) kit.expect(listed("methods").includes(method), `Access-Control-Allow-Methods with ${method.toUpperCase()}`);
    kit.expect(listed("headers").includes("range"), "Access-Control-Allow-Headers with Range");
    const answers = [
      await files.put(bytes, { headers: { Origin } }),
      await files.get(sha, { headers: { Origin }, range: "bytes=1-" }),
      await files.get(shaOf(freshBytes()), { headers: { Origin } }),
      await files.have([sha], { headers: { Origin } }),
    ];
    for (const answer of answers) {
      kit.expect([Origin, "*"].includes(answer.headers["access-control-allow-origin"]), "Access-Control-Allow-Origin with the origin, or *", answer);
      kit.expect(/content-range/i.test(answer.headers["access-control-expose-headers"] ?? ""), "Access-Control-Expose-Headers with Content-Range", answer);
    }
  }),
  check("files.missing", {
    at,
    rule: "R25",
    says: "`files` has the names of the missing objects, or the first 1,000 of them, and nothing of the operation is written.",
    hint: "Look once, at the end of the operation, at the documents that it leaves.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const session = kit.session();
    const [stored, ...missing] = [freshBytes(), freshBytes(), freshBytes()];
    const [photo, ...scans] = [stored, ...missing].map(referenceTo);
    const names = scans.map(({ sha }) => sha);
    await files.store(stored);
    const lacks = async (wanted, ...operation) => {
      const { fault, exchange, op } = await session.refused("file_missing", ...operation);
      kit.equal(sorted(fault.files), sorted(wanted), "files", exchange);
      return op;
    };
    const refused = await lacks(names, ...album("a", { photo, scans }));
    await lacks(names.slice(0, 1), "batch", { ops: [["doc.put", { class: "Note", data: { id: "a" } }], album("b", { photo: scans[0] })].map(([name, args]) => ({ name, args })) });
    for (const def of ["Album", "Note"]) kit.equal((await session.pull(def)).present, [], "present, after refused operations", kit.last);
    await session.batch(album("c", { scans }), ["doc.patch", { class: "Album", key: ["c"], set: { scans: [photo] } }]);
    await session.batch(album("d", { scans }), ["doc.delete", { class: "Album", key: ["d"] }]);
    await lacks(names.slice(1), "doc.patch", { class: "Album", key: ["c"], set: { photo: scans[1] } });
    kit.equal((await session.pull("Album")).rows.filter(({ deleted }) => !deleted).map(({ data }) => data), [{ id: "c", scans: [photo], release: 1 }], "the documents", kit.last);
    for (const bytes of missing) await files.store(bytes);
    const { reply } = await session.sync({ ops: [refused] });
    kit.isFault(reply.results[0].fault ?? reply.results[0], "file_missing");
    await session.put("Album", { id: "a", photo, scans });
  }),
  check("files.reference", {
    at,
    rule: "R25",
    says: "A list that is there as plain bytes is missing, for a reference above 2^20 bytes. A `size` that is not that of the file is `bad_value`.",
    hint: "The fields of a reference are those of docs/schema.md#files. A document has at most 1,000 of them.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const session = kit.session();
    const bytes = freshBytes();
    const photo = referenceTo(bytes);
    await files.store(bytes);
    const { sha, size } = photo;
    const isBad = (data) => session.refused("bad_value", ...album("a", data));
    for (const wrong of [size + 1, size - 1, 0, -1, FILE_BYTES_MAX + 1, "20"]) await isBad({ photo: { sha, size: wrong } });
    for (const wrong of [{ sha }, { size }, { ...photo, other: 1 }, { ...photo, type: 1 }, { ...photo, name: "x".repeat(1025) }, sha, [photo]]) await isBad({ photo: wrong });
    for (const wrong of [photo, [sha], [photo, { sha }]]) await isBad({ scans: wrong });
    await session.put("Album", { id: "a", photo: { ...photo, type: "image/png", name: "n", digest: "x".repeat(1024) }, scans: [photo, photo] });
    await session.put("Album", { id: "b", photo: null, scans: [] });

    const chunks = twoChunks();
    const { list, ...large } = fileOf(chunks);
    for (const object of [...chunks, list]) await files.store(object);
    const { fault, exchange } = await session.refused("file_missing", ...album("c", { photo: large }));
    kit.equal(fault.files, [large.sha], "files", exchange);
    await files.store(list, { query: `?list=${large.size}` });
    await isBad({ photo: { ...large, size: large.size + 1 } });
    await session.put("Album", { id: "c", photo: large });

    const many = Array.from({ length: 1001 }, () => referenceTo(freshBytes()));
    await session.refused("too_large", ...album("d", { scans: many }));
    const most = await session.refused("file_missing", ...album("d", { scans: many.slice(1) }));
    kit.equal(sorted(most.fault.files), sorted(many.slice(1).map((one) => one.sha)), "the names of 1,000 files", most.exchange);
  }),
  check("files.ends", {
    at,
    rule: "R25",
    says: "Otherwise it keeps it until a deadline: 7 days after its upload or its last confirmation, or 30 days after its last reference ended.",
    hint: "Look references up, and do not count them. The end of one is no end of the bytes.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const session = kit.session();
    const [bytes, chunks] = [freshBytes(), twoChunks()];
    const { list, ...large } = fileOf(chunks);
    const photo = referenceTo(bytes);
    await files.store(bytes);
    await files.storeFile(chunks);
    const remain = async () => {
      for (const object of [bytes, list, ...chunks]) await files.isThere(object);
    };
    await session.put("Album", { id: "a", photo, scans: [photo, large] });
    await session.put("Album", { id: "b", photo: large, scans: [photo] });
    await session.delete("Album", ["a"]);
    await remain();
    await session.patch("Album", ["b"], { photo: null }, { unset: ["scans"] });
    await remain();
    await session.delete("Album", ["b"]);
    await remain();
    const names = [photo, large].map(({ sha }) => sha);
    kit.equal(await files.there(...names), names, "there, after the last reference ended", kit.last);
    await session.put("Album", { id: "c", scans: [large, photo] });
  }),
  check("files.readers", {
    at,
    rule: "R23",
    says: "Without rights, every account of the org may read every object.",
    hint: "An object is of one org: another org has to store the same bytes again.",
  }, async (kit) => {
    const files = await filesOf(kit);
    const bytes = freshBytes();
    const photo = referenceTo(bytes);
    await files.store(bytes);
    const elsewhere = new Files(kit, { org: kit.otherOrg });
    await elsewhere.isAbsent(photo.sha);
    const { fault, exchange } = await kit.session({ org: kit.otherOrg }).refused("file_missing", ...album("a", { photo }));
    kit.equal(fault.files, [photo.sha], "files", exchange);
    await elsewhere.store(bytes);
    await elsewhere.isThere(bytes);
    const { token, tokenOther, tokenForeign } = kit.options;
    if (tokenOther) await new Files(kit, { token: tokenOther }).isThere(bytes);
    const strangers = [...(token ? [["kit-unknown", 401, "unauthorized"]] : []), ...(tokenForeign ? [[tokenForeign, 403, "forbidden"]] : [])];
    for (const [stranger, status, code] of strangers) {
      const other = new Files(kit, { token: stranger });
      for (const answer of [await other.get(photo.sha), await other.put(bytes), await other.have([photo.sha])]) kit.isRefused(answer, status, code);
    }
  }),
  check("files.read-only", {
    at,
    says: "the token's role is `read`, for `PUT` and `have`",
    hint: "To ask by `have` is to confirm, so it is a write. `GET` is none.",
    needs: ["token", "tokenRead"],
  }, async (kit) => {
    const files = await filesOf(kit);
    const [bytes, other] = [freshBytes(), freshBytes()];
    await files.store(bytes);
    const reader = new Files(kit, { token: kit.options.tokenRead });
    await reader.isThere(bytes);
    for (const answer of [await reader.put(other), await reader.have([shaOf(bytes)])]) kit.isRefused(answer, 403, "forbidden");
    await files.isAbsent(shaOf(other));
  }),
  check("files.restart", {
    at,
    rule: "R25",
    says: "While a document references an object, or a list that is there names it, the server keeps it.",
    hint: "Names, references and deadlines are in the database. The bytes are durable before the answer.",
    needs: ["restart"],
    isAlone: true,
  }, async (kit) => {
    const files = await filesOf(kit);
    const session = kit.session();
    const [uploaded, referenced, ended] = [freshBytes(), freshBytes(), freshBytes()];
    const chunks = twoChunks();
    const { list, ...large } = fileOf(chunks);
    for (const bytes of [uploaded, referenced, ended]) await files.store(bytes);
    await files.storeFile(chunks);
    await session.put("Album", { id: "a", photo: large, scans: [referenceTo(referenced)] });
    await session.put("Album", { id: "b", photo: referenceTo(ended) });
    await session.delete("Album", ["b"]);
    await kit.hooks.restart();
    for (const object of [uploaded, referenced, ended, list, ...chunks]) await files.isThere(object);
    await session.refused("bad_value", ...album("c", { photo: { ...large, size: large.size + 1 } }));
    await session.put("Album", { id: "c", photo: large, scans: [uploaded, ended].map(referenceTo) });
  }),
];
