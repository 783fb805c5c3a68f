// Messages over HTTP.
import { DEF, Fault, MIB, ORG, isMap, isText, malformed, own, tooDeep } from "./common.mjs";
import { decodeJson, decodeMsgpack, depthOf, encodeJson, encodeMsgpack, floats, text } from "./forms.mjs";

const isCount = (holder, key) => {
  const value = own(holder, key);
  return Number.isSafeInteger(value) && value >= 0 && !floats.get(holder)?.has(key);
};

function readRequest(message) {
  if (!isMap(message)) throw malformed("the message is no map");
  if (!isCount(message, "p")) throw malformed("p is no number");
  if (message.p !== 1) throw new Fault("wrong_protocol", "D", "this server speaks protocol 1", { status: 400 });
  if (!isText(own(message, "session"))) throw malformed("session");
  const { session, epoch, ops = [], subs = [] } = message;
  if (epoch !== undefined) {
    const isEpoch = Array.isArray(epoch) && epoch.length === 2 && isCount(epoch, 0) && typeof epoch[1] === "string";
    if (!isEpoch || Buffer.byteLength(epoch[1]) > 1024) throw malformed("epoch");
  }
  if (!Array.isArray(ops) || !Array.isArray(subs)) throw malformed("ops and subs are lists");
  if (ops.length > 500 || subs.length > 1000) throw new Fault("too_large", "A", "too many operations or subscriptions", { status: 413 });
  for (const op of ops) {
    if (!isMap(op) || !isText(own(op, "id")) || !isText(own(op, "name"))) throw malformed("an operation has an id and a name");
    if (!isCount(op, "seq") || op.seq < 1 || !isCount(op, "at")) throw malformed("an operation has a seq and an at");
    if (!Object.hasOwn(op, "args")) throw malformed("an operation has args");
    if (Object.hasOwn(op, "after") && !isText(op.after)) throw malformed("after is an id");
    if (depthOf(op.args) > 32) throw tooDeep();
  }
  for (const sub of subs) {
    const isSub = Array.isArray(sub) && (sub.length === 2 || sub.length === 3) && isDef(sub[0]) && isCount(sub, 1);
    if (!isSub || (sub.length === 3 && !isText(sub[2]))) throw malformed("a subscription is a def, a version and a cursor");
  }
  return { session, epoch, ops, subs };
}

export function isDef(def) {
  const [, , collection, hash] = (typeof def === "string" && DEF.exec(def)) || [undefined];
  return typeof def === "string" && DEF.test(def) && !(collection && !/^[-\w]{22}$/.test(hash ?? ""));
}

// ---- HTTP ----

export const FORMS = {
  "application/msgpack": { decode: decodeMsgpack, encode: encodeMsgpack },
  "application/json": { decode: (bytes) => decodeJson(text(bytes)), encode: (value) => Buffer.from(encodeJson(value)) },
};

/** The org and the endpoint of a path `{base}/{org}/{what}`. Any base is accepted: tests tell sessions apart by it. */
export function readPath(url) {
  const path = url.split("?")[0].split("/");
  const [org, what] = path.slice(-2);
  if (path.at(-2) === "file" && path.length > 3) throw new Fault("not_supported", "A", "there are no files", { status: 501 });
  if (path.length < 3 || (what !== "sync" && what !== "live")) throw new Fault("not_found", "N", "no such path", { status: 404 });
  let name = "";
  try {
    name = decodeURIComponent(org);
  } catch {
    // Then it is no name.
  }
  return { what, name };
}

export function checkOrg(name) {
  if (!ORG.test(name)) throw new Fault("unknown_org", "N", "no name of an org", { status: 404 });
}

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= 4 * MIB) chunks.push(chunk);
  }
  if (size > 4 * MIB) throw new Fault("too_large", "A", "the body has more than 4 MiB", { status: 413 });
  return new Uint8Array(Buffer.concat(chunks));
}

export function headersFor(request) {
  const origin = request.headers.origin ?? "*";
  return { "Cache-Control": "no-store", "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "Retry-After", Vary: "Origin" };
}

function answerOptions(request, response) {
  const headers = {
    "Access-Control-Allow-Origin": request.headers.origin ?? "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
    "Cache-Control": "no-store",
    Vary: "Origin",
  };
  if (request.headers["access-control-request-private-network"]) headers["Access-Control-Allow-Private-Network"] = "true";
  response.writeHead(204, headers).end();
}

export async function serve(engine, trouble, request, response) {
  if (request.method === "OPTIONS") return answerOptions(request, response);
  const type = (request.headers["content-type"] ?? "").split(";")[0].trim().toLowerCase();
  const [contentType, form] = Object.hasOwn(FORMS, type) ? [type, FORMS[type]] : ["application/json", FORMS["application/json"]];
  const headers = { ...headersFor(request), "Content-Type": contentType };
  let status = 200;
  let reply;
  try {
    const { what, name } = readPath(request.url);
    if (what === "live") throw malformed("a socket is opened by an upgrade");
    if (request.method !== "POST") throw new Fault("not_found", "N", "the method is POST", { status: 405 });
    checkOrg(name);
    const body = await readBody(request);
    const weather = trouble(request);
    if (weather === "lost request") return response.destroy();
    if (weather === "unavailable") throw new Fault("unavailable", "O", "closed for a while", { status: 503 });
    if (!Object.hasOwn(FORMS, type)) throw malformed("the Content-Type is neither msgpack nor JSON");
    reply = engine.sync(name, readRequest(form.decode(body)));
    if (weather === "lost reply") return response.destroy();
  } catch (error) {
    const fault = error instanceof Fault ? error : new Fault("server_error", "X", "the server failed");
    if (!(error instanceof Fault)) console.error(error);
    status = fault.status ?? 500;
    reply = fault.toValue();
  }
  if (status === 503) headers["Retry-After"] = "0";
  response.writeHead(status, headers).end(form.encode(reply));
}
