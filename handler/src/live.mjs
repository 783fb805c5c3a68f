// The socket: it tells sessions when to pull (docs/protocol.md, "Socket"). It takes any object with the interface of a
// WebSocket: `send`, `close`, and `addEventListener` for `message`, `close` and `error`.
import { Fault, malformed } from "./engine/fault.mjs";
import { bytesOf } from "./engine/hash.mjs";
import { run } from "./engine/run.mjs";
import { isDef } from "./engine/schema.mjs";
import { isMap } from "./engine/values.mjs";
import { decode, FORMS, isText } from "./request.mjs";

const GREETING_MS = 10_000;
const PULSE_MS = 2_000;
const PULSES_PER_BEAT = 4;
/** A peer that does not read so much is closed. */
const BUFFERED_MAX = 16 << 20;
const MESSAGES_MAX = 100;
const MESSAGES_WITHIN_MS = 10_000;

/** The sockets that listen, by org. */
export class Sockets {
  #byOrg = new Map();
  #open = new Set();

  constructor(engine) {
    engine.listeners.add((org, defs, time) => {
      const listening = org === undefined ? [...this.#byOrg.values()].flatMap((all) => [...all]) : [...(this.#byOrg.get(org) ?? [])];
      for (const hear of listening) hear(defs, time);
    });
  }
  join(org, hear) {
    const all = this.#byOrg.get(org) ?? new Set();
    this.#byOrg.set(org, all.add(hear));
  }
  leave(org, hear) {
    const all = this.#byOrg.get(org);
    all?.delete(hear);
    if (all?.size === 0) this.#byOrg.delete(org);
  }
  opened(socket) {
    this.#open.add(socket);
  }
  ended(socket) {
    this.#open.delete(socket);
  }
  /** Closes all: the server stops. */
  closeAll() {
    for (const socket of [...this.#open]) socket.close(1012, "stopping");
  }
}

/** Serves a socket of an org. `admit(token)` returns its caller, or throws the fault that closes it. */
export function listen({ engine, sockets, admit, onError }, org, socket, firstToken) {
  const state = { defs: new Set(), form: undefined, token: firstToken, pulse: undefined, caller: undefined, isOver: false };
  const send = (message) => {
    const bytes = state.form.encode(message);
    if (socket.bufferedAmount > BUFFERED_MAX) socket.close(1008, "too slow");
    else if (!state.isOver) socket.send(state.form.isBinary ? bytes : new TextDecoder().decode(bytes));
  };
  const close = (error) => {
    const isFault = error instanceof Fault;
    if (!isFault) onError(error);
    socket.close(error.kind === "S" ? 4401 : error.code === "too_many" ? 4429 : isFault ? 1008 : 1011, isFault ? error.code : "server_error");
  };
  // All that happens on a socket happens in its order, although a token may be looked up elsewhere.
  let turn = Promise.resolve();
  const inTurn = (act) => {
    turn = turn.then(() => state.isOver || act()).catch(close);
  };
  /** A token may be withdrawn: it is checked before each hint, and every two seconds. */
  const whileAdmitted = (act) => inTurn(async () => {
    state.caller = await admit(state.token);
    act();
  });
  const greeting = setTimeout(() => socket.close(1008, "timeout"), GREETING_MS);
  let waiting = new Map();
  /** Notes the changes of its defs: without `changed`, of all of them. */
  const hear = (changed, time) => {
    const isFirst = waiting.size === 0;
    for (const [def, v] of changed ?? [...state.defs].map((def) => [def, time])) if (state.defs.has(def)) waiting.set(def, Math.max(v, waiting.get(def) ?? 0));
    if (!isFirst || waiting.size === 0) return;
    whileAdmitted(() => {
      const hints = [...waiting];
      waiting = new Map();
      send({ hints });
    });
  };
  let times = [];
  const countMessage = () => {
    const now = performance.now();
    times = [...times.filter((time) => time > now - MESSAGES_WITHIN_MS), now];
    if (times.length > MESSAGES_MAX) throw new Fault("too_many", "O", "too many messages");
  };
  const read = async (data) => {
    countMessage();
    const isBinary = typeof data !== "string";
    state.form = FORMS[isBinary ? "application/msgpack" : "application/json"];
    const bytes = isBinary ? new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength) : bytesOf(data);
    const message = decode(state.form, bytes);
    if (!isMap(message)) throw malformed("a message is a map");
    const { subs, session, token = state.token } = message;
    state.token = token;
    state.caller = await admit(token);
    if (!isText(session) || !Array.isArray(subs) || !subs.every(isDef)) throw malformed("session or subs");
    if (subs.length > 1000) throw new Fault("too_large", "A", "more than 1,000 subscriptions");
    clearTimeout(greeting);
    const { reader } = engine;
    const faultOf = (def) => reader.refusal(state.caller, def, org) ?? (reader.find(def) ? undefined : reader.unknown(def));
    const faults = subs.map((def) => [def, faultOf(def)]);
    const live = faults.filter(([, fault]) => !fault).map(([def]) => def);
    const refused = faults.filter(([, fault]) => fault).map(([def, fault]) => [def, fault.toMap()]);
    state.defs = new Set(live);
    if (state.pulse === undefined) {
      sockets.join(org, hear);
      let beat = 0;
      state.pulse = setInterval(() => whileAdmitted(() => (beat += 1) % PULSES_PER_BEAT === 0 && send({})), PULSE_MS);
    }
    const head = await run(engine.head(org));
    if (!state.isOver) send({ live, ...(refused.length && { refused }), ...head });
  };
  const end = () => {
    state.isOver = true;
    clearTimeout(greeting);
    clearInterval(state.pulse);
    sockets.leave(org, hear);
    sockets.ended(socket);
  };
  sockets.opened(socket);
  socket.addEventListener("message", ({ data }) => inTurn(() => read(data)));
  socket.addEventListener("error", () => socket.close());
  socket.addEventListener("close", end);
}
