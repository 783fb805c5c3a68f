// A request before the engine has it: its path, its form, its body, and the shape of its message.
import { Fault, malformed, tooDeep, tooLarge } from "./engine/fault.mjs";
import { bytesOf } from "./engine/hash.mjs";
import { isDef, isOrg } from "./engine/schema.mjs";
import { depthOf, isMap, isString, own } from "./engine/values.mjs";
import { decodeJson, decodeMsgpack, encodeJson, encodeMsgpack, floats, Unreadable } from "./forms/index.mjs";

const MIB = 1 << 20;
/** A body with more bytes is refused. */
export const BODY_MAX = 4 * MIB;
/** A longer body is not read to its end, so that a caller does not lose the refusal while it sends. */
const DRAINED_MAX = 64 * MIB;

export const FORMS = {
  "application/msgpack": { decode: decodeMsgpack, encode: encodeMsgpack, isBinary: true },
  "application/json": { decode: decodeJson, encode: encodeJson, isBinary: false },
};

/** The media type of a request, and its form if there is one. */
export function formOf(headers) {
  const type = (headers.get("content-type") ?? "").split(";")[0].trim().toLowerCase();
  return { type, form: own(FORMS, type) };
}

export function decode(form, bytes) {
  try {
    return form.decode(bytes);
  } catch (error) {
    if (error instanceof Unreadable) throw error.isTooDeep ? tooDeep() : malformed(error.message);
    throw error;
  }
}

/** The endpoint and the org of a path, behind any base. */
export function readPath(pathname) {
  const parts = pathname.split("/");
  const [org, endpoint] = parts.slice(-2);
  // An org, or a part of the base, may have the name of an endpoint: the last part decides.
  if (endpoint !== "sync" && endpoint !== "live") {
    if (endpoint === "files" || parts.at(-2) === "file") throw new Fault("not_supported", "A", "there are no files", { status: 501 });
    throw new Fault("not_found", "N", "no such path", { status: 404 });
  }
  let name = "";
  try {
    name = decodeURIComponent(org);
  } catch {
    // Then it is no name.
  }
  if (!isOrg(name)) throw new Fault("unknown_org", "N", "no name of an org", { status: 404 });
  return { endpoint, org: name };
}

export async function readBody(request) {
  if (Number(request.headers.get("content-length")) > BODY_MAX) throw tooLarge("the body has more than 4 MiB");
  const chunks = [];
  let size = 0;
  try {
    for await (const chunk of request.body ?? []) {
      size += chunk.length;
      if (size <= BODY_MAX) chunks.push(chunk);
      else if (size > DRAINED_MAX) break;
    }
  } catch {
    throw new Fault("timeout", "X", "the body did not arrive", { status: 408 });
  }
  if (size > BODY_MAX) throw tooLarge("the body has more than 4 MiB");
  const body = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.length;
  }
  return body;
}

const lengthOf = (text) => bytesOf(text).length;
export const isText = (value) => isString(value) && value !== "" && lengthOf(value) <= 1024;
const isCount = (holder, key) => Number.isSafeInteger(own(holder, key)) && holder[key] >= 0 && !floats.get(holder)?.has(key);

/** Checks the message of a pull. Returns its fields, with their defaults. */
export function checkRequest(message) {
  if (!isMap(message) || !isCount(message, "p")) throw malformed("p is no number");
  if (message.p !== 1) throw new Fault("wrong_protocol", "D", "this server speaks protocol 1", { status: 400 });
  const { session, epoch, ops = [], subs = [] } = message;
  const isEpoch = Array.isArray(epoch) && epoch.length === 2 && isCount(epoch, 0) && isString(epoch[1]) && lengthOf(epoch[1]) <= 1024;
  if (!isText(session) || (epoch !== undefined && !isEpoch)) throw malformed("session or epoch");
  if (!Array.isArray(ops) || !Array.isArray(subs)) throw malformed("ops and subs are lists");
  if (ops.length > 500 || subs.length > 1000) throw tooLarge("more than 500 operations, or than 1,000 subscriptions");
  for (const op of ops) {
    const isGood = isMap(op) && isText(own(op, "id")) && isText(own(op, "name")) && isCount(op, "seq") && op.seq > 0 && isCount(op, "at");
    if (!isGood || !Object.hasOwn(op, "args") || (Object.hasOwn(op, "after") && !isText(op.after))) throw malformed("an operation");
    if (depthOf(op.args) > 32) throw tooDeep();
  }
  for (const sub of subs) {
    const isGood = Array.isArray(sub) && isDef(sub[0]) && isCount(sub, 1) && sub.length <= 3 && (sub.length < 3 || isText(sub[2]));
    if (!isGood) throw malformed("a subscription is a def, a version, and perhaps a cursor");
  }
  return { session, epoch, ops, subs, page: isCount(message, "page") ? message.page : undefined };
}
