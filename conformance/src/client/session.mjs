// A small honest session: it numbers its operations, pulls defs, and follows pages.
import { Failure } from "../check.mjs";
import { KINDS, isNotExecuted } from "../faults.mjs";
import { fresh, uuid } from "../names.mjs";
import { show } from "./exchange.mjs";

/** Gives lists that were left out as empty ones. They are not enumerable, so that a report shows the reply as it came. */
function fillIn(reply) {
  const fill = (holder, name, value) => {
    if (holder[name] === undefined) Object.defineProperty(holder, name, { value, enumerable: false });
  };
  fill(reply, "results", []);
  fill(reply, "parts", []);
  fill(reply, "seq", 0);
  for (const part of reply.parts) for (const name of ["rows", "left"]) fill(part, name, []);
}

const PASSES = ["contention", "unavailable"];

export class Session {
  constructor(kit, { form, org, token, name } = {}) {
    this.kit = kit;
    this.form = form ?? kit.nextForm();
    this.org = org ?? kit.org;
    this.token = token;
    this.name = name ?? fresh("session-");
    this.seq = 0;
    this.at = Date.now();
  }

  /** Sends a request and returns the exchange, with any status. */
  ask(message, options = {}) {
    const { form = this.form, org = this.org, token = this.token, ...rest } = options;
    return this.kit.exchange({ form, org, token, message: { p: 1, session: this.name, ...message }, ...rest });
  }
  /** Sends a request that the server has to answer. */
  async sync(message, options) {
    const exchange = await this.ask(message, options);
    if (options?.dropsAnswer) return exchange;
    if (exchange.status !== 200) throw new Failure(`a reply with status 200, not ${exchange.status}`, exchange);
    if (exchange.reply === undefined) throw new Failure(`a reply in the form of the request: ${exchange.mistakes.join("; ")}`, exchange);
    fillIn(exchange.reply);
    return exchange;
  }
  /** Makes an operation under the next number. */
  make(name, args, more) {
    return { id: uuid(), seq: (this.seq += 1), name, args, at: Date.now(), ...more };
  }
  /** Sends one operation until it is executed, and returns `{ op, result, exchange }`. */
  async run(name, args, more) {
    const op = this.make(name, args, more);
    for (let i = 0; ; i++) {
      const exchange = await this.sync({ ops: [op] });
      const [result] = exchange.reply.results ?? [];
      if (!result) throw new Failure("a result of the operation", exchange);
      if (result.fault && isNotExecuted(result.fault)) {
        if (PASSES.includes(result.fault.code) && i < 40) {
          await this.kit.wait(50);
          continue;
        }
        this.seq -= 1;
      }
      return { op, result, exchange };
    }
  }
  /** Runs an operation that has to be accepted. Returns its version, its id and the exchange. */
  async does(name, args, more) {
    const { op, result, exchange } = await this.run(name, args, more);
    if (!result.ok) throw new Failure(`${name} is accepted, not ${show(result.fault)}`, exchange);
    return { v: result.ok.v, id: op.id, op, exchange };
  }
  put = (className, data, more = {}) => {
    const { ifVersion, ...rest } = more;
    return this.does("doc.put", { class: className, data, ifVersion }, rest);
  };
  patch = (className, key, set, { unset, ifVersion } = {}) =>
    this.does("doc.patch", { class: className, key, set, unset, ifVersion });
  delete = (className, key, ifVersion) => this.does("doc.delete", { class: className, key, ifVersion });
  batch = (...ops) => this.does("batch", { ops: ops.map(([name, args]) => ({ name, args })) });

  /** Runs an operation that has to be refused by this code, and returns the fault and the exchange. */
  async refused(code, name, args, more) {
    const { op, result, exchange } = await this.run(name, args, more);
    this.kit.isFault(result.fault ?? result, code, exchange);
    return { fault: result.fault, op, exchange };
  }

  /** Pulls one def, and returns its part with `rows` and `left`, the reply and the exchange. */
  async pull(def, v = 0, cursor) {
    const exchange = await this.sync({ subs: [cursor === undefined ? [def, v] : [def, v, cursor]] });
    const part = exchange.reply.parts?.[0];
    if (!part) throw new Failure(`a part for ${def}`, exchange);
    if (part.fault) throw new Failure(`a part with rows, not the fault ${show(part.fault)}`, exchange);
    return { ...part, rows: part.rows, left: part.left, reply: exchange.reply, exchange };
  }
  /** Pulls a def to its end. `between` runs between two pages. */
  async load(def, v = 0, between = () => {}) {
    const pages = [await this.pull(def, v)];
    while (pages.at(-1).next !== undefined) {
      await between(pages.length);
      if (pages.length > 500) throw new Failure("an end of the pages", pages.at(-1).exchange);
      pages.push(await this.pull(def, v, pages.at(-1).next));
    }
    const { now, delta, epoch } = pages[0].reply;
    const last = pages.at(-1);
    return {
      pages,
      epoch,
      rows: pages.flatMap(({ rows }) => rows),
      left: pages.flatMap(({ left }) => left),
      present: last.present,
      v: pages[0].n ?? Math.max(v, now - delta),
      exchange: last.exchange,
    };
  }
}

/** Whether a value is the fault of this code, with its kind. */
export function isFaultOf(fault, code) {
  return fault?.code === code && fault.kind === KINDS[code];
}
