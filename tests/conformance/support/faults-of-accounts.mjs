// Faults of the endpoint `account`, planted between the kit and the reference server: the example servers have no
// accounts. A proxy passes every request on, and a fault changes a request or its answer.
import { createServer } from "node:http";

import { FORMS } from "../../../conformance/src/client/exchange.mjs";
import { send } from "../../../conformance/src/client/http.mjs";
import { launch } from "./launch.mjs";

const formOf = (headers) => (/msgpack/.test(headers["content-type"]) ? FORMS.msgpack : FORMS.json);
const text = (bytes) => Buffer.from(bytes ?? []).toString("base64url");

/** The answer to a request, if it has succeeded. */
const answers = (name, change) => async (ask, pass) => {
  const answer = await pass(ask);
  if (ask.do === name && answer.status === 200) change(answer.reply, ask);
  return answer;
};

/** A server that remembers the good answers of a request, and gives them again to those that it refuses. */
const forgives = (name, codes, keyOf) => {
  const good = new Map();
  return async (ask, pass) => {
    const answer = await pass(ask);
    if (ask.do !== name) return answer;
    const key = keyOf(ask);
    if (answer.status === 200) good.set(key, answer);
    return codes.includes(answer.reply?.code) ? (good.get(key) ?? { status: 200, reply: {} }) : answer;
  };
};

/** Each fault with the check that has to find it. A fault is made for each run. */
export const ACCOUNT_FAULTS = {
  "a sign-up gives a token": ["accounts.sign-up", () => answers("sign-up", (reply) => (reply.token = "a token"))],
  "the id of an account is the server's own": ["accounts.sign-up", () => answers("sign-up", (reply) => (reply.account = reply.account.toLowerCase()))],
  "a login that is taken is taken over": ["accounts.taken", () => forgives("sign-up", ["login_taken"], ({ login }) => login)],
  "a sign-up needs no proof": ["accounts.key", () => forgives("sign-up", ["malformed"], ({ login }) => login)],
  "the proof of any key makes an account": ["accounts.key", () => forgives("sign-up", ["bad_value"], ({ pub }) => text(pub))],
  "a proof of a sign-up fits another login": ["accounts.key", () => forgives("sign-up", ["contention"], ({ pub }) => text(pub))],
  "a login in any form makes an account": ["accounts.login", () => forgives("sign-up", ["bad_login"], ({ login }) => login)],
  "a login beyond ASCII is refused": ["accounts.login", () => (ask, pass) => (ask.do === "start" && /[^!-~]/.test(ask.login) ? { status: 400, reply: { code: "bad_login", kind: "A", message: "no ASCII" } } : pass(ask))],
  "a token comes in clear": ["accounts.token", () => answers("sign-in", (reply) => (reply.token = "a token"))],
  "a token is sealed to another key": ["accounts.token", () => answers("sign-in", (reply) => (reply.token = reply.token.map((byte) => byte ^ 1)))],
  "each sign-in has the key of the first": ["accounts.token", () => {
    let first;
    return answers("sign-in", (reply) => (first ??= reply.serverKey, reply.serverKey = first));
  }],
  "the signature lacks": ["accounts.sign-in", () => answers("sign-in", (reply) => (reply.signature = new Uint8Array(32)))],
  "a token lasts a year": ["accounts.sign-in", () => answers("sign-in", (reply) => (reply.until += 365 * 86_400_000))],
  "fewer rounds": ["accounts.unknown-login", () => answers("start", (reply, { wrap }) => {
    if (wrap === "passphrase") reply.rounds = 1_000;
  })],
  "an unknown login is told": ["accounts.unknown-login", () => {
    const known = new Set();
    return (ask, pass) => {
      if (ask.do === "sign-up") known.add(ask.login);
      return ask.do === "start" && !known.has(ask.login) ? { status: 404, reply: { code: "not_found", kind: "N", message: "no such login" } } : pass(ask);
    };
  }],
  "any proof fits": ["accounts.wrong-proof", () => forgives("sign-in", ["wrong_passphrase"], () => "any")],
  "a recorded sign-in is answered again": ["accounts.challenge", () => forgives("sign-in", ["contention"], ({ proof }) => text(proof))],
  "a device gets another id at each sign-in": ["accounts.devices", () => answers("sign-in", (reply) => (reply.device = [...reply.device].reverse().join("")))],
  "a revoked device is not revoked": ["accounts.revoke", () => (ask, pass) => (ask.do === "revoke" ? { status: 200, reply: {} } : pass(ask))],
  "a device that was ended is a new one": ["accounts.revoke", () => forgives("sign-in", ["device_revoked"], ({ login }) => login)],
  "the last secret can be removed": ["accounts.wraps", () => forgives("wraps", ["bad_value"], ({ login }) => login)],
  "wraps that were put are not kept": ["accounts.wraps", () => answers("wraps", (reply) => reply.wraps.pop())],
  "an account stays open": ["accounts.close", () => (ask, pass) => (ask.do === "close" && ask.token ? { status: 200, reply: {} } : pass(ask))],
};

const collect = async (request) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return new Uint8Array(Buffer.concat(chunks));
};

/** Starts the reference server with accounts behind a proxy that has this fault, or none. */
export async function plantInAccounts(name) {
  const { options, stop } = await launch("reference", { run: "accounts", hasAccounts: true });
  const { url, run, accounts } = options;
  const fault = name && ACCOUNT_FAULTS[name][1]();
  const proxy = createServer(async (request, response) => {
    const body = await collect(request);
    const headers = { ...request.headers };
    for (const name of ["host", "connection"]) delete headers[name];
    const form = formOf(headers);
    const pass = async () => {
      const answer = await send({ url: url + request.url, method: request.method, headers, body });
      return { ...answer, reply: form.decode(answer.bytes) };
    };
    const isAsked = fault && request.url.endsWith("/account");
    const answer = isAsked ? await fault({ ...form.decode(body), token: headers.authorization }, pass) : await pass();
    const bytes = isAsked ? Buffer.from(form.encode(answer.reply)) : Buffer.from(answer.bytes);
    const told = { "www-authenticate": answer.headers?.["www-authenticate"], "retry-after": answer.headers?.["retry-after"] };
    const more = Object.fromEntries(Object.entries(told).filter(([, value]) => value !== undefined));
    response.writeHead(answer.status, { "content-type": form.type, "content-length": bytes.length, "cache-control": "no-store", ...more }).end(bytes);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    options: { url: `http://127.0.0.1:${proxy.address().port}`, run, accounts },
    async stop() {
      proxy.close();
      proxy.closeAllConnections();
      await stop();
    },
  };
}
