// Faults of files, planted between the kit and the reference server: the example servers keep no files.
import { FORMS } from "../../../conformance/src/client/exchange.mjs";
import { launch } from "./launch.mjs";
import { answerLike, formOf, messageOf, startProxy, withMessage } from "./proxy.mjs";

const CHUNK_BYTES = 2 ** 20;
const TOKENS = { hasTokens: true };

/** The endpoint of a request, with the name of the object and the query. */
function placeOf({ method, path }) {
  const [, sha, query = ""] = /\/file\/([^?]*)(\?.*)?$/.exec(path) ?? [];
  if (sha !== undefined) return { endpoint: { PUT: "put", GET: "get", OPTIONS: "options" }[method], sha, query };
  return { endpoint: method === "OPTIONS" ? "options" : path.split("/").at(-1), query };
}

const isOf = (endpoint, ask) => placeOf(ask).endpoint === endpoint;
const tokenOf = ({ headers }) => headers.authorization?.replace("Bearer ", "");
const refusal = (status, code, kind) => answerLike(undefined, status, { code, kind, phase: 0, message: "planted" });
const codeOf = (answer) => (answer.status < 400 || !answer.bytes.length ? undefined : messageOf(answer).code);

/** Changes the requests of an endpoint. */
const asks = (endpoint, change) => () => (ask, pass) => pass(isOf(endpoint, ask) ? { ...ask, ...change(ask, placeOf(ask)) } : ask);
/** Changes the answers of an endpoint, or replaces them. */
const answers = (endpoint, change) => () => async (ask, pass) => {
  const answer = await pass(ask);
  return isOf(endpoint, ask) ? ((await change(answer, ask, pass)) ?? answer) : answer;
};
/** Answers of an endpoint with these statuses. */
const answersOf = (endpoint, statuses, change) => answers(endpoint, (answer, ...rest) => (statuses.includes(answer.status) ? change(answer, ...rest) : answer));
/** Sets headers of answers. */
const heads = (endpoint, statuses, headers) => answersOf(endpoint, statuses, (answer) => ({ ...answer, headers: { ...answer.headers, ...headers } }));
/** Leaves a header out of answers. */
const without = (endpoint, statuses, name) => answersOf(endpoint, statuses, (answer) => {
  return { ...answer, headers: Object.fromEntries(Object.entries(answer.headers).filter(([header]) => header !== name)) };
});
/** Changes the messages of good answers. */
const messages = (endpoint, change) => answersOf(endpoint, [200], (answer, ask) => {
  const message = messageOf(answer);
  change(message, ask);
  return withMessage(answer, message);
});
/** Changes results, each with its operation. The map that `change` gets lasts for the whole run. */
const results = (change) => () => {
  const held = new Map();
  return messages("sync", (reply, ask) => {
    const { ops = [] } = messageOf(ask);
    reply.results = reply.results?.map((result) => change(result, ops.find(({ id }) => id === result.id), held) ?? result);
    if (!reply.results?.length) delete reply.results;
  })();
};
const accepted = ({ id }) => ({ id, ok: { v: Date.now() } });
/** Operations that are refused by this code seem to be accepted. */
const accepts = (code) => results((result) => (result.fault?.code === code ? accepted(result) : result));
/** Requests that are refused by this code seem to be accepted. */
const takes = (endpoint, code) => answers(endpoint, (answer) => (codeOf(answer) === code ? answerLike(answer, 200, { until: Date.now() + 8 * 86_400_000 }) : answer));
/** Objects are lost once an operation like this one was executed so many times. */
const loses = (isSo, times) => () => {
  let count = 0;
  return async (ask, pass) => {
    if (isOf("get", ask) && count >= times) return refusal(404, "not_found", "N");
    const answer = await pass(ask);
    if (isOf("sync", ask) && answer.status === 200) count += (messageOf(ask).ops ?? []).filter(isSo).length;
    return answer;
  };
};

/** The name that a decoder of base64 makes of another text of the same hash. */
const decoded = (sha) => Buffer.from(sha.replace("+", "-"), "base64url").subarray(0, 32).toString("base64url");
const decodedPath = ({ path }, { sha, query }) => ({ path: path.replace(/[^/]*$/, decoded(sha) + query) });
const withoutQuery = ({ path }) => ({ path: path.replace(/\?.*$/, "") });

/** Each fault with the check that has to find it, and perhaps options of the server. A fault is made for each run. */
export const FILE_FAULTS = {
  "an upload is answered without a deadline": ["files.stored", messages("put", (reply) => delete reply.until)],
  "a deadline in seconds": ["files.stored", messages("put", (reply) => (reply.until = Math.floor(reply.until / 1000)))],
  "an upload is kept for a day": ["files.stored", messages("put", (reply) => (reply.until -= 6 * 86_400_000))],
  "bytes pass through a text": ["files.stored", answersOf("get", [200], (answer) => ({ ...answer, bytes: Buffer.from(Buffer.from(answer.bytes).toString("utf8")) }))],
  "an object has the type of its upload": ["files.stored", heads("get", [200], { "content-type": "image/png" })],
  "a repeated upload is refused": ["files.stored", () => {
    const seen = new Set();
    return async (ask, pass) => {
      if (!isOf("put", ask)) return pass(ask);
      if (seen.has(ask.path)) return refusal(409, "not_unique", "A");
      seen.add(ask.path);
      return pass(ask);
    };
  }],
  "the empty file is no object": ["files.stored", () => (ask, pass) => (isOf("put", ask) && !ask.bytes.length ? refusal(400, "malformed", "B") : pass(ask))],
  "an upload needs a type": ["files.stored", () => (ask, pass) => (isOf("put", ask) && !/json|octet/.test(ask.headers["content-type"]) ? refusal(400, "malformed", "B") : pass(ask))],

  "there is in an order of its own": ["files.have", messages("files", (reply, ask) => (reply.there = messageOf(ask).have.filter((sha) => reply.there?.includes(sha)).sort().reverse()))],
  "every object is there": ["files.have", messages("files", (reply, ask) => (reply.there = messageOf(ask).have))],
  "no object is there": ["files.have", messages("files", (reply) => delete reply.there)],
  "null for no object": ["files.have", messages("files", (reply) => (reply.there = reply.there?.length ? reply.there : null))],
  "a have names another epoch": ["files.have", messages("files", (reply) => (reply.epoch = [1, "other"]))],
  "a have confirms nothing": ["files.have", messages("files", (reply) => (reply.until -= 6 * 86_400_000))],
  "a have is always answered in JSON": ["files.have", answersOf("files", [200], (answer) => {
    return { ...answer, headers: { ...answer.headers, "content-type": "application/json" }, bytes: FORMS.json.encode(messageOf(answer)) };
  })],
  "a have is cut": ["files.have", () => (ask, pass) => {
    if (!isOf("files", ask) || !/json|msgpack/.test(ask.headers["content-type"])) return pass(ask);
    const message = messageOf(ask);
    return pass(withMessage(ask, { ...message, have: message.have.slice(0, 1000) }));
  }],
  "a have is limited below 1,000": ["files.have", () => (ask, pass) => (isOf("files", ask) && ask.bytes.length > 2 ** 14 ? refusal(413, "too_large", "A") : pass(ask))],

  "a name is decoded in a GET": ["files.names", asks("get", decodedPath)],
  "a name is decoded in a PUT": ["files.names", asks("put", decodedPath)],
  "a name is decoded in a have": ["files.names", asks("files", (ask) => withMessage(ask, { ...messageOf(ask), have: messageOf(ask).have.map(decoded) }))],
  "a name is decoded in a document": ["files.names", accepts("bad_value")],

  "bytes of another hash are stored": ["files.refused", takes("put", "file_damaged")],
  "a refused upload is stored": ["files.refused", () => {
    const stored = new Map();
    return async (ask, pass) => {
      const answer = await pass(ask);
      const { endpoint, sha } = placeOf(ask);
      if (endpoint === "put" && answer.status === 422) stored.set(sha, ask.bytes);
      if (endpoint !== "get" || !stored.has(sha)) return answer;
      return { status: 200, headers: { "content-type": "application/octet-stream", "cache-control": "no-store" }, bytes: stored.get(sha) };
    };
  }],
  "an object of any length is stored": ["files.refused", takes("put", "too_large")],
  "an object of no announced length is stored": ["files.refused", answersOf("put", [413], (answer, ask) => (ask.isAnnounced ? answer : answerLike(answer, 200, { until: Date.now() + 8 * 86_400_000 })))],
  "a refusal has the form of the upload": ["files.refused", answersOf("put", [422], (answer, ask) => {
    return { ...answer, headers: { ...answer.headers, "content-type": ask.headers["content-type"] }, bytes: formOf(ask.headers).encode(messageOf(answer)) };
  })],

  "missing chunks are not named": ["files.list", answersOf("put", [409], (answer) => withMessage(answer, { ...messageOf(answer), files: undefined }))],
  "a list is stored before its chunks": ["files.list", answersOf("put", [409], async (answer, ask, pass) => {
    await pass({ ...ask, ...withoutQuery(ask) });
    return answer;
  })],
  "a list needs no chunks": ["files.list", takes("put", "file_missing")],
  "all chunks of a list are missing": ["files.list", answersOf("put", [409], (answer, ask) => {
    const digests = Array.from({ length: ask.bytes.length / 32 }, (_, i) => ask.bytes.subarray(i * 32, i * 32 + 32).toString("base64url"));
    return withMessage(answer, { ...messageOf(answer), files: digests });
  })],

  "the lengths of chunks are not looked at": ["files.list-refused", takes("put", "bad_value")],
  "the list of a small file is stored": ["files.list-refused", () => (ask, pass) => {
    const size = /^\?list=(\d+)$/.exec(placeOf(ask).query)?.[1];
    return pass(size !== undefined && Number(size) <= CHUNK_BYTES ? { ...ask, ...withoutQuery(ask) } : ask);
  }],
  "another query is ignored": ["files.list-refused", asks("put", (ask, { query }) => (/^\?list=\d{1,19}$/.test(query) ? {} : withoutQuery(ask)))],
  "the size of a list has 53 bits": ["files.list-refused", () => (ask, pass) => {
    const size = /^\?list=(\d+)$/.exec(placeOf(ask).query)?.[1];
    return size !== undefined && !Number.isSafeInteger(Number(size)) ? refusal(400, "bad_value", "A") : pass(ask);
  }],

  "ranges are ignored": ["files.ranges", asks("get", ({ headers }) => ({ headers: { ...headers, range: "none" } }))],
  "the last byte of a range is left out": ["files.ranges", answersOf("get", [206], (answer) => ({ ...answer, bytes: answer.bytes.slice(0, -1) }))],
  "a range does not say where it is": ["files.ranges", without("get", [206], "content-range")],
  "a range behind the end is empty": ["files.ranges", answersOf("get", [416], (answer) => ({ ...answer, status: 206 }))],
  "a range behind the end is everything": ["files.ranges", answersOf("get", [416], (answer, { headers, ...ask }, pass) => pass({ ...ask, headers: { ...headers, range: "none" } }))],
  "several ranges are refused": ["files.ranges", () => (ask, pass) => (/,/.test(ask.headers.range) ? refusal(416, "bad_value", "A") : pass(ask))],
  "a range from the end is from the start": ["files.ranges", asks("get", ({ headers }) => (headers.range ? { headers: { ...headers, range: headers.range.replace("=-", "=0-") } } : {}))],

  "pages may not upload": ["files.other-origin", heads("options", [204], { "access-control-allow-methods": "POST, GET" })],
  "pages may not ask for ranges": ["files.other-origin", heads("options", [204], { "access-control-allow-headers": "Authorization, Content-Type" })],
  "pages cannot read Content-Range": ["files.other-origin", heads("get", [206], { "access-control-expose-headers": "Retry-After" })],
  "pages cannot read an upload's answer": ["files.other-origin", heads("put", [200], { "access-control-allow-origin": "null" })],

  "missing objects are not named": ["files.missing", results((result) => void delete result.fault?.files)],
  "only the first missing object is named": ["files.missing", results((result) => void (result.fault?.files && (result.fault.files = result.fault.files.slice(0, 1))))],
  "a document may reference a missing object": ["files.missing", accepts("file_missing")],
  "a batch is executed up to its missing object": ["files.missing", () => async (ask, pass) => {
    const { ops = [], p } = isOf("sync", ask) ? messageOf(ask) : {};
    for (const { name, args, at, id } of ops.filter((op) => op.name === "batch")) {
      const first = { id: `${id}-first`, seq: 1, at, ...args.ops[0] };
      await pass(withMessage(ask, { p, session: `${name}-${id}`, ops: [first] }));
    }
    return pass(ask);
  }],
  "each operation of a batch is looked at": ["files.missing", results((result, op) => {
    const fault = { code: "file_missing", kind: "A", phase: 1, message: "planted", files: [] };
    return op?.name === "batch" && result.ok ? { id: result.id, fault } : result;
  })],
  "an upload changes the result of a refused operation": ["files.missing", results((result, op, seen) => {
    if (result.fault?.code !== "file_missing") return result;
    if (seen.has(result.id)) return accepted(result);
    seen.set(result.id, true);
    return result;
  })],

  "a reference may have any form": ["files.reference", accepts("bad_value")],
  "a size is not looked at": ["files.reference", results((result, op) => {
    const { photo } = op?.args?.data ?? {};
    return result.fault?.code === "bad_value" && photo?.sha && photo.size > 0 ? accepted(result) : result;
  })],
  "a list of plain bytes is a file": ["files.reference", results((result, op) => (result.fault?.code === "file_missing" && op.args.data.photo ? accepted(result) : result))],
  "plain bytes stay plain bytes": ["files.reference", () => {
    const seen = new Set();
    return async (ask, pass) => {
      const { endpoint, sha, query } = placeOf(ask);
      if (endpoint === "put" && query && seen.has(sha)) return pass({ ...ask, ...withoutQuery(ask) });
      if (endpoint === "put") seen.add(sha);
      return pass(ask);
    };
  }],
  "a document has any number of references": ["files.reference", accepts("too_large")],
  "a document has few references": ["files.reference", results((result, op) => (op?.args?.data?.scans?.length > 100 ? { id: result.id, fault: { code: "too_large", kind: "A", phase: 0, message: "planted" } } : result))],

  "the end of one reference ends the object": ["files.ends", loses(({ name }) => name === "doc.delete", 1)],
  "a patch ends the object": ["files.ends", loses(({ name }) => name === "doc.patch", 1)],
  "the end of the last reference ends the object": ["files.ends", loses(({ name }) => name === "doc.delete", 2)],

  "an object is of all orgs": ["files.readers", asks("get", ({ path }) => ({ path: path.replace("-2/file", "/file") }))],
  "a have is of all orgs": ["files.readers", asks("files", ({ path }) => ({ path: path.replace("-2/files", "/files") }))],
  "a reference is looked for in all orgs": ["files.readers", accepts("file_missing")],
  "an object is of its uploader alone": ["files.readers", () => (ask, pass) => (isOf("get", ask) && tokenOf(ask) === "kit-other" ? refusal(404, "not_found", "N") : pass(ask)), TOKENS],
  "who knows a hash needs no token": ["files.readers", asks("get", ({ headers }) => ({ headers: { ...headers, authorization: "Bearer kit-write" } })), TOKENS],

  "a reader uploads": ["files.read-only", asks("put", ({ headers }) => ({ headers: { ...headers, authorization: "Bearer kit-write" } })), TOKENS],
  "a reader confirms": ["files.read-only", asks("files", ({ headers }) => ({ headers: { ...headers, authorization: "Bearer kit-write" } })), TOKENS],
  "a reader cannot read": ["files.read-only", () => (ask, pass) => (isOf("get", ask) && tokenOf(ask) === "kit-read" ? refusal(403, "forbidden", "S") : pass(ask)), TOKENS],

  "objects are in memory": ["files.restart", (held) => (ask, pass) => (isOf("get", ask) && held.restarted ? refusal(404, "not_found", "N") : pass(ask))],
  "the sizes of files are lost at a restart": ["files.restart", (held) => async (ask, pass) => {
    return held.restarted ? results((result) => (result.fault?.code === "bad_value" ? accepted(result) : result))()(ask, pass) : pass(ask);
  }],

  "bytes stay in a cache": ["watch.no-store", heads("get", [200], { "cache-control": "private, max-age=3600" }), { only: "files.stored" }],
  "a range stays in a cache": ["watch.no-store", heads("get", [206], { "cache-control": "private" }), { only: "files.ranges" }],
};

/** Starts the reference server behind a proxy that has this fault, or none. */
export async function plantInFiles(name) {
  const [, make, { hasTokens = false } = {}] = FILE_FAULTS[name] ?? [];
  const { options, stop } = await launch("reference", { run: "files", hasTokens });
  const held = { restarted: false };
  const proxy = await startProxy(options.url, make?.(held));
  const restart = async () => {
    await options.restart();
    held.restarted = true;
  };
  return {
    options: { ...options, url: proxy.url, restart },
    async stop() {
      proxy.stop();
      await stop();
    },
  };
}
