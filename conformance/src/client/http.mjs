// One request and its answer, with nothing hidden: any header, any body, and the choice to drop the answer.
import http from "node:http";
import https from "node:https";

const AGENTS = new Map();

/** Servers close connections that are idle for some seconds. A request that is sent at that moment has no answer. */
const IDLE_MS = 2000;

function agentOf(protocol) {
  const { Agent } = protocol === "https:" ? https : http;
  if (!AGENTS.has(protocol)) AGENTS.set(protocol, new Agent({ keepAlive: true, maxSockets: 64, timeout: IDLE_MS }));
  return AGENTS.get(protocol);
}

/** Closes the connections that wait for a next request: a process can end. */
export function closeConnections() {
  for (const agent of AGENTS.values()) agent.destroy();
  AGENTS.clear();
}

const REFUSAL_MS = 1000;

/**
 * Sends a request. With `headersFirst` the body waits for a moment, because a server may refuse it by its length: a
 * connection that is cut while the body is written loses the answer. The answer is `{ status, headers, bytes }`. With `dropsAnswer` it is `undefined`: the connection is
 * cut once the server has begun to answer, so that the request was executed.
 */
export function send({ url, method, headers, body, dropsAnswer, headersFirst, timeoutMs = 30_000 }) {
  return new Promise((resolve, reject) => {
    const target = new URL(url);
    const { request: open } = target.protocol === "https:" ? https : http;
    const request = open(target, { method, headers, agent: agentOf(target.protocol) });
    request.setTimeout(timeoutMs, () => request.destroy(new Error(`no answer within ${timeoutMs} ms`)));
    request.on("error", reject);
    request.on("response", (response) => {
      if (dropsAnswer) {
        response.on("error", () => {});
        request.destroy();
        resolve(undefined);
        return;
      }
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        resolve({ status: response.statusCode, headers: response.headers, bytes: new Uint8Array(Buffer.concat(chunks)) });
      });
    });
    if (!headersFirst) return void request.end(body && Buffer.from(body));
    request.flushHeaders();
    const timer = setTimeout(() => request.end(Buffer.from(body)), REFUSAL_MS);
    request.on("response", (response) => {
      clearTimeout(timer);
      response.on("end", () => request.destroy());
    });
  });
}
