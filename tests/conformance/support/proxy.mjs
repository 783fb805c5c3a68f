// A proxy between the kit and a server. A fault changes a request, or its answer; everything else passes as it is.
import { createServer } from "node:http";

import { FORMS } from "../../../conformance/src/client/exchange.mjs";
import { send } from "../../../conformance/src/client/http.mjs";

const OF_THE_CONNECTION = ["host", "connection", "keep-alive", "transfer-encoding", "content-length", "date"];
/** A server may refuse a longer body by its length alone. */
const BODY_BYTES_MAX = 2 ** 20;

export const formOf = (headers) => (/msgpack/.test(headers["content-type"]) ? FORMS.msgpack : FORMS.json);

/** The value of a request or of an answer that is a message. */
export const messageOf = ({ headers, bytes }) => formOf(headers).decode(new Uint8Array(bytes));

/** A request or an answer with another message. */
export const withMessage = (holder, message) => ({ ...holder, bytes: formOf(holder.headers).encode(message) });

/** An answer in the form of another one. */
export const answerLike = (answer, status, message) =>
  withMessage({ status, headers: { "content-type": "application/json", "cache-control": "no-store", ...(answer?.headers["vary"] && { vary: answer.headers.vary }) } }, message);

async function bytesOf(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const passed = (headers) => Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.includes(name)));

/** Starts a proxy before `url`. A fault gets a request, and `pass`, which gives the server's answer to one. */
export async function startProxy(url, fault = (ask, pass) => pass(ask)) {
  const pass = async ({ method, path, headers, bytes }) => {
    const length = bytes.length || ["PUT", "POST"].includes(method) ? { "content-length": String(bytes.length) } : {};
    return send({ url: url + path, method, headers: { ...headers, ...length }, body: bytes, headersFirst: bytes.length > BODY_BYTES_MAX });
  };
  const proxy = createServer(async (request, response) => {
    const { method, url: path, headers: asked } = request;
    const ask = { method, path, headers: passed(asked), isAnnounced: "content-length" in asked, bytes: await bytesOf(request) };
    const { status, headers, bytes } = await fault(ask, pass);
    const length = status === 204 ? {} : { "content-length": bytes.length };
    response.writeHead(status, { ...passed(headers), ...length }).end(Buffer.from(bytes));
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    proxy.close();
    proxy.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${proxy.address().port}`, stop };
}
