// Watches every answer that any check gets. A watch is a check that the whole run makes.
import { isMap, wasFloat } from "../forms/values.mjs";
import { describe, show } from "../client/exchange.mjs";
import { Failure } from "../check.mjs";
import { isNumbered } from "../names.mjs";
import { formWatches, list } from "./form.mjs";
import { partWatches } from "./parts.mjs";
import { replyWatches } from "./reply.mjs";

const ofReplies = [...partWatches, ...replyWatches];

/** The mistakes of the pushed parts of numbered classes; nothing if there are none. */
function pushedNumbers(parts) {
  const numbered = parts.filter(({ def }) => isNumbered(String(def).split(/[/@]/)[0]));
  if (!numbered.length) return undefined;
  return numbered.flatMap(({ def, from, n, rows }) => {
    if (!Number.isSafeInteger(from) || !Number.isSafeInteger(n)) return [`the pushed part of ${def} lacks from or n`];
    const odd = list(rows).filter(({ v }) => v <= from || v > n);
    return odd.map(({ pk, v }) => `the pushed part of ${def} has ${pk} at ${v}, from ${from} to ${n}`);
  });
}

const socketWatches = [
  {
    id: "watch.socket-form",
    at: "socket",
    says: "Frames have the form of the session's last message.",
    hint: "A text frame is answered by text frames, a binary one by binary ones.",
    frame: (socket, { form, mistakes }) => [...mistakes, ...(form === socket.form ? [] : [`a frame is ${form}, and the last message ${socket.form}`])],
  },
  {
    id: "watch.hints",
    at: "socket",
    says: "`[def, v]`: this def has changed; `v` is the version of the committed change",
    hint: "Hint only at defs that the socket listens to.",
    frame: (socket, { reply }) =>
      list(reply?.hints).flatMap((hint) => {
        const isGood = Array.isArray(hint) && typeof hint[0] === "string" && Number.isSafeInteger(hint[1]) && !wasFloat(hint, 1);
        return isGood ? [] : [`${show(hint)} is no hint`];
      }),
  },
  {
    id: "watch.push",
    at: "socket",
    says: "A part has `def`, and `rows`, `left` or both. It has no `total`, `next`, `present` or `fault`.",
    hint: "A push is no reply: it may be left out altogether.",
    frame: (socket, { reply }) =>
      list(reply?.parts).flatMap((part) => {
        const extra = ["total", "next", "present", "fault"].filter((name) => Object.hasOwn(part, name));
        const lacks = ["epoch", "now", "delta"].filter((name) => !Object.hasOwn(reply, name));
        return [...extra.map((name) => `a pushed part has ${name}`), ...lacks.map((name) => `a push has no ${name}`)];
      }),
  },
  {
    id: "watch.pushed-numbers",
    at: "numbers",
    says: "All of them have the same `n`, and each has `from`: every change above `from` and up to `n` is in the part, and `floor` if the floor is above `from`.",
    hint: "A server need not push. If it does, a session finds lost pushes by `from` alone.",
    frame: (socket, { reply }) => pushedNumbers(list(reply?.parts)),
  },
];

export const WATCHES = [...formWatches, ...ofReplies, ...socketWatches].map((one) => ({ needs: [], ...one }));

export class Watcher {
  constructor() {
    this.found = new Map(WATCHES.map(({ id }) => [id, { seen: 0, failures: [] }]));
    this.numbers = new Map();
  }
  /** Notes the numbers of a request, and returns those that its session has heard of so far. */
  sending({ org, token, message }) {
    const name = JSON.stringify([org, token, message?.session]);
    if (!this.numbers.has(name)) this.numbers.set(name, { highest: 0, seen: 0, epoch: undefined });
    const sent = this.numbers.get(name);
    const numbers = list(message?.ops).map((op) => op?.seq?.value ?? op?.seq).filter((seq) => typeof seq === "number");
    sent.highest = Math.max(sent.highest, ...numbers);
    return { sent, seen: sent.seen };
  }
  /** Notes the number of a reply. In another epoch, the session may have to go back. */
  heard({ reply, known: { sent } }) {
    const epoch = JSON.stringify(reply.epoch);
    sent.seen = epoch === sent.epoch ? Math.max(sent.seen, reply.seq ?? 0) : (reply.seq ?? 0);
    sent.epoch = epoch;
  }
  /** Without a list of mistakes, the answer does not concern the watch. */
  note({ id }, mistakes, holder) {
    if (mistakes === undefined) return;
    const entry = this.found.get(id);
    entry.seen += 1;
    if (mistakes.length) entry.failures.push(new Failure(mistakes.slice(0, 5).join("; "), { lines: describe(holder) }));
  }
  exchange(exchange) {
    if (exchange.status === undefined) return;
    for (const watch of formWatches) {
      if (watch.isForOptions === false && exchange.request.method === "OPTIONS") continue;
      if (watch.id !== "watch.answer-form" && watch.id !== "watch.no-store" && watch.id !== "watch.readable" && !isMap(exchange.reply)) {
        if (watch.id !== "watch.refusal-is-fault") continue;
      }
      this.note(watch, watch.test(exchange), exchange);
    }
    if (exchange.status !== 200 || !isMap(exchange.reply) || !isMap(exchange.request.message)) return;
    for (const watch of ofReplies) this.note(watch, this.safely(() => watch.test(exchange)), exchange);
    this.heard(exchange);
  }
  /** Watches the headers alone: the body is no message of this page's tables. */
  headers(exchange) {
    if (exchange.status === undefined) return;
    for (const watch of formWatches) if (watch.isOfHeaders) this.note(watch, watch.test(exchange), exchange);
  }
  frame(socket, message) {
    for (const watch of socketWatches) this.note(watch, this.safely(() => watch.frame(socket, message)), socket);
  }
  /** An answer may be of any shape: a watch that stumbles over it has found a mistake. */
  safely(test) {
    try {
      return test();
    } catch (error) {
      return [`it has not the shape of a reply: ${error.message}`];
    }
  }
}
