// A request with its answer, as checks and reports see it.
import { gunzipSync } from "node:zlib";

import { json, msgpack } from "../forms/index.mjs";
import { isMap } from "../forms/values.mjs";
import { send } from "./http.mjs";

export const FORMS = {
  json: { type: "application/json", ...json },
  msgpack: { type: "application/msgpack", ...msgpack },
};

const formOf = (type) => Object.keys(FORMS).find((name) => FORMS[name].type === (type ?? "").split(";")[0].trim());

/**
 * Sends `message` in a form, or `body` as it is. `mistakes` has the mistakes of the answer's form, `reply` its value:
 * rows have their `data` as a map in both forms.
 */
export async function exchange({ form = "json", message, body, headers = {}, method = "POST", url, ...rest }) {
  const sent = body ?? (message === undefined ? undefined : FORMS[form].encode(message));
  const all = { ...(sent && { "Content-Type": FORMS[form].type, "Content-Length": String(sent.length) }), ...headers };
  for (const name of Object.keys(all)) if (all[name] === undefined) delete all[name];
  const request = { method, url, headers: all, form, message, body: sent };
  const began = Date.now();
  const answer = await send({ url, method, headers: all, body: sent, ...rest });
  const result = { request, mistakes: [], began, ended: Date.now() };
  if (!answer) return result;
  if (answer.headers["content-encoding"] === "gzip") answer.bytes = unpacked(answer.bytes, result.mistakes);
  Object.assign(result, answer, { answerForm: formOf(answer.headers["content-type"]) });
  if (answer.bytes.length === 0) return result;
  if (!result.answerForm) {
    result.mistakes.push(`the Content-Type is ${answer.headers["content-type"] ?? "missing"}`);
    return result;
  }
  result.mistakes.push(...read(result, result.answerForm, answer.bytes));
  return result;
}

function unpacked(bytes, mistakes) {
  try {
    return new Uint8Array(gunzipSync(bytes));
  } catch (error) {
    mistakes.push(`it cannot be decompressed by gzip: ${error.message}`);
    return bytes;
  }
}

/** Decodes bytes into `reply` of a holder, and returns the mistakes of their form. */
export function read(holder, form, bytes) {
  try {
    holder.reply = FORMS[form].decode(bytes);
  } catch (error) {
    return [`it cannot be read as ${form}: ${error.message}`];
  }
  return form === "msgpack" ? openData(holder.reply) : [];
}

/** In msgpack the `data` of a row is bytes that hold a map. Puts the map into their place. */
function openData(reply) {
  const mistakes = [];
  const open = (row, where) => {
    if (!isMap(row) || row.data === undefined) return;
    if (!(row.data instanceof Uint8Array)) {
      mistakes.push(`${where}.data is not bytes`);
      return;
    }
    try {
      row.dataBytes = row.data.length;
      Object.defineProperty(row, "dataBytes", { enumerable: false });
      row.data = msgpack.decode(row.data);
    } catch (error) {
      mistakes.push(`${where}.data cannot be read: ${error.message}`);
    }
  };
  if (!isMap(reply)) return mistakes;
  const list = (value) => (Array.isArray(value) ? value : []);
  list(reply.parts).forEach((part, i) => list(part?.rows).forEach((row, n) => open(row, `parts[${i}].rows[${n}]`)));
  list(reply.results).forEach((result, i) => open(result?.fault?.doc, `results[${i}].fault.doc`));
  return mistakes;
}

const LONGEST = 1600;
const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)} ... (${text.length} characters)` : text);

/** A value as one line of JSON, for people. */
export function show(value) {
  if (value === undefined) return "nothing";
  try {
    return cut(Buffer.from(FORMS.json.encode(value)).toString());
  } catch {
    return cut(String(value));
  }
}

/** The lines of a report. */
export function describe({ request, status, headers, reply, bytes, mistakes, frames }) {
  if (frames) return frames.slice(-12).map(({ from, text }) => `${from} ${cut(text)}`);
  const { method, url, form, message, body } = request;
  const head = Object.entries(request.headers).filter(([name]) => !/^(content-length|authorization)$/i.test(name));
  const lines = [`-> ${method} ${url}`, ...head.map(([name, value]) => `   ${name}: ${value}`)];
  if (message !== undefined) lines.push(`   ${show(message)}`);
  else if (body) lines.push(`   ${form === "json" ? cut(Buffer.from(body).toString()) : cut(Buffer.from(body).toString("hex"))}`);
  if (status === undefined) return [...lines, "<- (the kit dropped the answer)"];
  lines.push(`<- ${status}`);
  const told = ["content-type", "cache-control", "retry-after", "www-authenticate", "vary"];
  for (const [name, value] of Object.entries(headers)) {
    if (told.includes(name) || name.startsWith("access-control")) lines.push(`   ${name}: ${value}`);
  }
  if (reply !== undefined) lines.push(`   ${show(reply)}`);
  else if (bytes.length) lines.push(`   ${cut(Buffer.from(bytes.subarray(0, 400)).toString("latin1"))}`);
  return [...lines, ...mistakes.map((mistake) => `   (${mistake})`)];
}
