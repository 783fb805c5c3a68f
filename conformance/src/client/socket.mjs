// A socket, which keeps all frames with their times.
import WebSocket from "ws";

import { Failure } from "../check.mjs";
import { fresh } from "../names.mjs";
import { FORMS, read, show } from "./exchange.mjs";

export class Socket {
  constructor(kit, { form, org, token, headers } = {}) {
    Object.assign(this, { kit, form: form ?? kit.nextForm(), token, frames: [], messages: [], waiting: new Set() });
    this.name = fresh("session-");
    this.opened = Date.now();
    this.socket = new WebSocket(kit.socketUrl(org ?? kit.org), { headers, perMessageDeflate: false });
    this.closed = new Promise((resolve) => {
      this.socket.on("close", (code, reason) => {
        this.end = { code, reason: reason.toString(), at: Date.now() };
        this.frames.push({ from: "<- close", text: `${code} ${this.end.reason}` });
        resolve(this.end);
        this.wake();
      });
    });
    this.open = new Promise((resolve, reject) => {
      this.socket.on("open", resolve);
      this.socket.on("unexpected-response", (request, response) => {
        this.refusal = { status: response.statusCode, headers: response.headers };
        response.resume();
        response.on("end", () => reject(new Failure(`an upgrade, not status ${response.statusCode}`, this)));
      });
      this.socket.on("error", (error) => reject(new Failure(`a socket: ${error.message}`, this)));
    });
    this.open.catch(() => {});
    this.socket.on("message", (data, isBinary) => this.receive(new Uint8Array(data), isBinary));
    kit.sockets.add(this);
  }
  receive(bytes, isBinary) {
    const form = isBinary ? "msgpack" : "json";
    const message = { at: Date.now(), form, mistakes: [] };
    message.mistakes.push(...read(message, form, bytes));
    this.frames.push({ from: `<- ${form}`, text: show(message.reply) });
    this.messages.push(message);
    this.kit.watcher.frame(this, message);
    this.wake();
  }
  wake() {
    for (const one of this.waiting) one();
  }
  async send(message, form = this.form) {
    await this.open;
    this.form = form;
    const bytes = FORMS[form].encode(message);
    this.frames.push({ from: `-> ${form}`, text: show(message) });
    this.socket.send(form === "json" ? Buffer.from(bytes).toString() : bytes, { binary: form !== "json" });
  }
  /** Subscribes, and waits for the confirmation. */
  async subscribe(subs, more) {
    const from = this.messages.length;
    await this.send({ session: this.name, token: this.token, subs, ...more });
    return this.until(({ reply }) => reply?.live !== undefined, { from, wanted: "a confirmation { live }", ms: 5000 });
  }
  /** Waits for a message, also among those that have come since `from`. */
  until(wanted, { from = 0, ms: limit = 3000, wanted: name = "a message" } = {}) {
    const ms = limit + this.kit.options.slack;
    return new Promise((resolve, reject) => {
      const done = (act) => {
        clearTimeout(timer);
        this.waiting.delete(look);
        act();
      };
      const look = () => {
        const found = this.messages.slice(from).find(wanted);
        if (found) done(() => resolve(found));
        else if (this.end) done(() => reject(new Failure(`${name}, not a close with ${this.end.code} ${this.end.reason}`, this)));
      };
      const timer = setTimeout(() => done(() => reject(new Failure(`${name} within ${ms} ms`, this))), ms);
      this.waiting.add(look);
      look();
    });
  }
  /** Waits for a hint of a def at this version or a later one. */
  hint(def, v, options) {
    const isIt = ({ reply }) => reply?.hints?.some(([name, at]) => name === def && at >= v);
    return this.until(isIt, { wanted: `a hint ["${def}", ${v}]`, ms: 1500, ...options });
  }
  hintsOf(def) {
    return this.messages.flatMap(({ reply }) => reply?.hints ?? []).filter(([name]) => name === def);
  }
  /** Waits for the end of the socket. */
  async closes(limit) {
    const ms = limit + this.kit.options.slack;
    const late = new Promise((resolve) => (this.timer = setTimeout(resolve, ms)));
    await Promise.race([this.closed, late]);
    clearTimeout(this.timer);
    if (!this.end) throw new Failure(`a close within ${ms} ms`, this);
    return this.end;
  }
  stop() {
    this.socket.terminate();
  }
}
