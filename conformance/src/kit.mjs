// The means of one check: an org of its own, sessions, sockets, expectations, and the hooks.
import { Failure, Skip } from "./check.mjs";
import { exchange, show } from "./client/exchange.mjs";
import { Session, isFaultOf } from "./client/session.mjs";
import { Socket } from "./client/socket.mjs";
import { same } from "./forms/values.mjs";
import { KINDS } from "./faults.mjs";
import { randomFrom } from "./names.mjs";

/** The names of the orgs of a check: a token file can name them before a run. */
export const orgsOf = (run, id) => [`kit-${run}-${id.replace(/[^a-z0-9]/g, "-")}`, `kit-${run}-${id.replace(/[^a-z0-9]/g, "-")}-2`];

export class Kit {
  constructor({ options, watcher, hooks, check, seed }) {
    Object.assign(this, { options, watcher, hooks, check });
    [this.org, this.otherOrg] = orgsOf(options.run, check.id);
    this.below = randomFrom(seed);
    this.sockets = new Set();
    this.forms = this.below(2);
  }
  /** The forms take turns, so that both are seen. */
  nextForm() {
    if (this.options.form !== "both") return this.options.form;
    return (this.forms += 1) % 2 ? "msgpack" : "json";
  }
  url(org, path = "sync", base = this.options.url) {
    return `${base}/${encodeURIComponent(org)}/${path}`;
  }
  socketUrl(org, base = this.options.url) {
    return this.url(org, "live", base).replace(/^http/, "ws");
  }
  /** A server may have no socket: sessions then pull every 30 s. */
  needsSocket() {
    if (this.options.noSocket) throw new Skip("left out by --no-socket");
  }
  session(more) {
    return new Session(this, { token: this.options.token, ...more });
  }
  socket(more) {
    this.needsSocket();
    return new Socket(this, { token: this.options.token, ...more });
  }
  /**
   * Sends a request; each answer passes the watches. Of the answers about files and accounts that are no refusals, only the
   * headers do. A range that is not there is 416, and its body need not be a fault.
   */
  async exchange({ org = this.org, token = this.options.token, headers, path, base, url, ...rest }) {
    const bearer = token === undefined ? {} : { Authorization: `Bearer ${token}` };
    const target = url ?? this.url(org, path, base);
    const known = this.watcher.sending({ org, token, message: rest.message });
    const found = await exchange({ url: target, headers: { ...bearer, ...headers }, ...rest });
    this.last = Object.assign(found, { org, known });
    const isMessage = !/^(files?|account)\b/.test(path) || (found.status >= 400 && found.status !== 416);
    if (isMessage) this.watcher.exchange(found);
    else this.watcher.headers(found);
    return found;
  }

  expect(holds, wanted, shown = this.last) {
    if (!holds) throw new Failure(wanted, shown);
  }
  equal(found, wanted, name, shown = this.last) {
    if (!same(found, wanted)) throw new Failure(`${name} is ${show(wanted)}, not ${show(found)}`, shown);
  }
  /** Expects a fault of this code, and of its kind. */
  isFault(fault, code, shown = this.last) {
    if (!isFaultOf(fault, code)) throw new Failure(`the fault ${code} of kind ${KINDS[code]}, not ${show(fault)}`, shown);
  }
  /** Expects that a whole request was refused. */
  isRefused(answer, status, code) {
    if (answer.status !== status) throw new Failure(`status ${status} with ${code}, not ${answer.status}`, answer);
    this.isFault(answer.reply, code, answer);
  }
  wait(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }
  /** A server keeps tombstones for far longer than `delta`: the purge waits until each write is as old as that. */
  async purge(session) {
    const { reply } = await session.sync({});
    await this.wait(reply.delta + 200);
    await this.hooks.purge();
  }
  close() {
    for (const socket of this.sockets) socket.stop();
  }
}
