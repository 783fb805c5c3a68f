// The socket of the second server.
import { createHash } from "node:crypto";

import { Fault, MIB, isMap, isText, malformed, own, unknownDef } from "./common.mjs";
import { FORMS, checkOrg, headersFor, isDef, readPath } from "./http.mjs";

class Socket {
  constructor(engine, org, stream) {
    Object.assign(this, { engine, org, stream, defs: new Set(), hints: new Map(), pending: Buffer.alloc(0), pieces: [] });
    this.form = 1;
    this.greeting = setTimeout(() => this.close(1008, "timeout"), 10_000);
    this.listener = (changed, defs, v) => changed === org && this.hint(defs, v);
    engine.listeners.add(this.listener);
    stream.on("data", (chunk) => this.receive(chunk));
    stream.on("close", () => this.end());
  }
  end() {
    clearTimeout(this.greeting);
    clearInterval(this.pulse);
    this.engine.listeners.delete(this.listener);
    this.stream.destroySoon();
  }
  frame(opcode, payload) {
    if (this.stream.destroyed || this.isClosing) return;
    const length = payload.length;
    const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
    head[0] = 0x80 | opcode;
    head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
    if (head.length === 4) head.writeUInt16BE(length, 2);
    if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
    this.stream.write(Buffer.concat([head, payload]));
  }
  send(message) {
    const form = FORMS[this.form === 1 ? "application/json" : "application/msgpack"];
    this.frame(this.form, Buffer.from(form.encode(message)));
  }
  close(code, reason) {
    const head = Buffer.alloc(2);
    head.writeUInt16BE(code);
    this.frame(8, Buffer.concat([head, Buffer.from(reason)]));
    this.isClosing = true;
    this.end();
  }
  hint(defs, v) {
    for (const def of defs) if (this.defs.has(def)) this.hints.set(def, v);
    if (this.hints.size === 0 || this.isHinting) return;
    this.isHinting = true;
    setImmediate(() => {
      this.isHinting = false;
      this.send({ hints: [...this.hints] });
      this.hints.clear();
    });
  }
  receive(chunk) {
    this.pending = Buffer.concat([this.pending, chunk]);
    for (;;) {
      const { pending } = this;
      if (this.isClosing || pending.length < 2) return;
      const short = pending[1] & 127;
      const start = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (pending.length < start + 4) return;
      const length = short < 126 ? short : short === 126 ? pending.readUInt16BE(2) : Number(pending.readBigUInt64BE(2));
      if (!(pending[1] & 128) || pending[0] & 0x70) return this.close(1008, "malformed");
      if (length > MIB) return this.close(1008, "too_large");
      if (pending.length < start + 4 + length) return;
      const mask = pending.subarray(start, start + 4);
      const payload = pending.subarray(start + 4, start + 4 + length).map((byte, i) => byte ^ mask[i & 3]);
      this.pending = pending.subarray(start + 4 + length);
      this.take(pending[0] & 15, Boolean(pending[0] & 128), payload);
    }
  }
  take(opcode, isLast, payload) {
    if (opcode === 8) return this.close(payload.length >= 2 ? payload.readUInt16BE(0) : 1000, "");
    if (opcode === 9) return this.frame(10, payload);
    if (opcode === 10) return;
    if (opcode !== 0) this.incoming = opcode;
    this.pieces.push(payload);
    if (!isLast) return;
    const whole = Buffer.concat(this.pieces);
    this.pieces = [];
    try {
      this.form = this.incoming;
      this.subscribe(FORMS[this.form === 1 ? "application/json" : "application/msgpack"].decode(new Uint8Array(whole)));
    } catch (error) {
      if (!(error instanceof Fault)) console.error(error);
      this.close(error instanceof Fault ? 1008 : 1011, error.code ?? "server_error");
    }
  }
  subscribe(message) {
    const subs = isMap(message) ? own(message, "subs") : undefined;
    if (!Array.isArray(subs) || !isText(own(message, "session")) || !subs.every(isDef)) throw malformed("session and subs");
    if (subs.length > 1000) throw new Fault("too_large", "A", "too many subscriptions");
    clearTimeout(this.greeting);
    this.pulse ??= setInterval(() => this.send({}), 8000);
    const live = subs.filter((def) => this.engine.changes(this.org, def));
    const refused = subs.filter((def) => !live.includes(def)).map((def) => [def, unknownDef().toValue()]);
    this.defs = new Set(live);
    this.send({ live, ...(refused.length && { refused }) });
  }
}

export function upgrade(engine, trouble, sockets, request, stream) {
  stream.on("error", () => stream.destroy());
  if (trouble(request)) return stream.destroy();
  try {
    const { what, name } = readPath(request.url);
    if (what !== "live") throw new Fault("not_found", "N", "a socket is at live", { status: 404 });
    checkOrg(name);
    const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    const lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", `Sec-WebSocket-Accept: ${accept}`];
    stream.write(`${lines.join("\r\n")}\r\n\r\n`);
    const socket = Object.assign(new Socket(engine, name, stream), { url: request.url });
    sockets.add(socket);
    stream.on("close", () => sockets.delete(socket));
  } catch (error) {
    const body = JSON.stringify(error.toValue?.() ?? {});
    const headers = { ...headersFor(request), "Content-Type": "application/json", "Content-Length": body.length, Connection: "close" };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    stream.end(`HTTP/1.1 ${error.status ?? 500} Refused\r\n${lines.join("")}\r\n${body}`);
  }
}
