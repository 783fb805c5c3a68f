// The protocol as a handler of requests: a `Request` in, a `Response` out. It runs wherever those two are.
import { Engine } from "./engine/engine.mjs";
import { Fault, malformed } from "./engine/fault.mjs";
import { run } from "./engine/run.mjs";
import { listen, Sockets } from "./live.mjs";
import { checkRequest, decode, formOf, FORMS, readBody, readPath } from "./request.mjs";

const LOCAL = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;
const EXPOSED = { "Access-Control-Expose-Headers": "Retry-After", Vary: "Origin" };

const tokenOf = (headers) => /^Bearer (.+)$/.exec(headers.get("authorization") ?? "")?.[1];

export class Handler {
  constructor(options) {
    const { authorize, origins = [], onError = (error) => console.error(error), engine } = options;
    if (authorize !== undefined && typeof authorize !== "function") throw new TypeError("authorize: a function of { token, org }");
    if (origins !== "*" && !Array.isArray(origins)) throw new TypeError('origins: a list of origins, or "*"');
    Object.assign(this, { authorize, origins, onError });
    this.engine = engine ?? new Engine({ ...options, onError });
    this.sockets = new Sockets(this.engine);
    // It is called apart from its handler, as in `Deno.serve(handler.fetch)`.
    this.fetch = this.fetch.bind(this);
    this.live = this.live.bind(this);
  }
  /** The caller of an org: `{ account, mayWrite }`. Throws the fault of one who may not enter. */
  async admit(token, org) {
    if (!this.authorize) return { account: "", mayWrite: true };
    const found = await this.authorize({ token, org });
    if (found === false) throw new Fault("forbidden", "S", "the token does not open this org", { status: 403 });
    if (!found) throw new Fault("unauthorized", "S", "the token is missing or unknown", { status: 401 });
    return { account: String(found.account), mayWrite: found.role !== "read" };
  }
  /** The headers of an answer to a page of this origin, or nothing if it may not call. */
  corsOf(request) {
    const origin = request.headers.get("origin");
    if (origin === null) return { "Access-Control-Allow-Origin": "*", ...EXPOSED };
    const isAllowed = this.origins === "*" || this.origins.includes(origin) || LOCAL.test(origin);
    return isAllowed ? { "Access-Control-Allow-Origin": origin, ...EXPOSED } : undefined;
  }
  preflight(request, cors) {
    const isPrivate = request.headers.has("access-control-request-private-network");
    return new Response(null, {
      status: 204,
      headers: {
        ...cors,
        "Cache-Control": "no-store",
        "Access-Control-Allow-Methods": "POST, GET",
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
        "Access-Control-Max-Age": "600",
        ...(isPrivate && { "Access-Control-Allow-Private-Network": "true" }),
      },
    });
  }
  /** Answers with a message, in the form of the request if there is one. */
  respond(request, status, message, cors) {
    const { type, form } = formOf(request.headers);
    const headers = {
      ...cors,
      "Cache-Control": "no-store",
      "Content-Type": form ? type : "application/json",
      ...(status === 401 && { "WWW-Authenticate": "Bearer" }),
      ...((status === 503 || status === 429) && { "Retry-After": "1" }),
    };
    return new Response((form ?? FORMS["application/json"]).encode(message), { status, headers });
  }
  refuse(request, error, cors = this.corsOf(request)) {
    const fault = error instanceof Fault ? error : new Fault("server_error", "X", "the server failed", { status: 500 });
    if (fault !== error) this.onError(error);
    return this.respond(request, fault.status ?? 500, fault.toMap(), cors);
  }
  foreign() {
    return new Fault("forbidden", "S", "this origin may not call", { status: 403 });
  }
  /** Answers a request. It never rejects. */
  async fetch(request) {
    const cors = this.corsOf(request);
    if (!cors) return this.refuse(request, this.foreign(), undefined);
    if (request.method === "OPTIONS") return this.preflight(request, cors);
    try {
      const { endpoint, org } = readPath(new URL(request.url).pathname);
      if (endpoint === "live") throw malformed("a socket is opened by an upgrade");
      if (request.method !== "POST") throw new Fault("not_found", "N", "the method is POST", { status: 405 });
      const caller = await this.admit(tokenOf(request.headers), org);
      const { form } = formOf(request.headers);
      if (!form) throw malformed("the Content-Type is neither msgpack nor JSON");
      const message = checkRequest(decode(form, await readBody(request)));
      return this.respond(request, 200, await run(this.engine.sync(org, caller, message)), cors);
    } catch (error) {
      return this.refuse(request, error, cors);
    }
  }
  /**
   * The upgrade to a socket: returns a `Response` that refuses it, or a function that takes the open socket. The runtime
   * makes the socket.
   */
  live(request) {
    try {
      if (!this.corsOf(request)) throw this.foreign();
      const { endpoint, org } = readPath(new URL(request.url).pathname);
      if (endpoint !== "live") throw new Fault("not_found", "N", "a socket is at live", { status: 404 });
      const { engine, sockets, onError } = this;
      const admit = (token) => this.admit(token, org);
      return (socket) => listen({ engine, sockets, admit, onError }, org, socket, tokenOf(request.headers));
    } catch (fault) {
      return this.refuse(request, fault);
    }
  }
  /** A write of the server itself: sessions hear of it. Returns its version, or throws its fault. */
  write(org, name, args) {
    return run(this.engine.write(org, name, args));
  }
  /** Removes all that sessions need no more. Call it once an hour. */
  purge() {
    return run(this.engine.purge());
  }
  /** Begins a later epoch, after the database was restored from a backup. */
  renewEpoch() {
    return run(this.engine.renewEpoch());
  }
  /** Closes all sockets, and the storage. */
  async close() {
    this.sockets.closeAll();
    await this.engine.storage.close?.();
  }
}

/** Makes a handler: see README.md for its options. */
export const createHandler = (options) => new Handler(options);

/** An `authorize` for a table of tokens: `{ token: { account, orgs, role, until? } }`, or a function that returns it. */
export function byTokens(table, clock = Date.now) {
  return async ({ token, org }) => {
    const tokens = typeof table === "function" ? await table() : table;
    const found = Object.hasOwn(tokens, token ?? "") ? tokens[token] : undefined;
    if (!found || found.until <= clock()) return undefined;
    return found.orgs.includes(org) && found;
  };
}
