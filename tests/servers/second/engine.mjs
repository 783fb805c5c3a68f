// Serves requests on the database, each without interruption.
import { createHmac, randomBytes } from "node:crypto";

import { DAY_MS, DEF, DELTA_MS, Fault, MIB, NOT_EXECUTED, ascending, unknownDef } from "./common.mjs";
import { Database, Write, rowOf, toWire, toWireResult, under } from "./database.mjs";
import { same, weightOf } from "./forms.mjs";
import { execute } from "./operations.mjs";
import { parseSchema } from "./schema.mjs";

export class Engine {
  constructor({ schema, clock, retentionMs, pageBytes }) {
    Object.assign(this, { classes: parseSchema(schema), clock, retentionMs, pageBytes, listeners: new Set(), tries: new Map() });
    this.db = new Database(clock);
  }
  tellNow() {
    return (this.db.told = Math.max(this.clock(), this.db.told, this.db.highest));
  }
  commit(write) {
    if (write.changed.size) this.db.highest = Math.max(this.db.highest, write.now);
    if (write.changed.size) for (const listener of this.listeners) listener(write.org, write.changed, write.now);
  }
  /** Executes an operation, or returns `{ fault, keepFault }` if it is not executed. */
  operate(org, request, op) {
    const write = new Write(this, org);
    const kept = under(this.db.operations, org);
    const sessions = under(this.db.sessions, org);
    const last = sessions.get(request.session) ?? 0;
    const refuse = (code, kind, message) => ({ fault: new Fault(code, kind, message).toValue() });
    if (request.epoch && !same(request.epoch, this.db.epoch)) return refuse("contention", "C", "another epoch");
    const known = kept.get(op.id);
    if (known) {
      if (known.name !== undefined && known.name !== op.name) return refuse("bad_value", "A", "the id has another name");
      if (op.seq === last + 1) sessions.set(request.session, op.seq);
      return { result: resultOf(op.id, known) };
    }
    if (op.seq > last + 1) return refuse("order_gap", "C", "operations before it are missing");
    if (op.seq <= last) return refuse("session_reused", "A", "the number is another operation's");
    const earlier = kept.get(op.after);
    if (op.after !== undefined && (!earlier || earlier.refused)) return refuse("order_held", "C", "it waits for another one");
    let result;
    try {
      execute(write, op);
      result = { id: op.id, ok: { v: write.given } };
    } catch (error) {
      write.rollBack();
      write.changed.clear();
      let fault = error instanceof Fault ? error : new Fault("internal", "B", "the operation broke", { phase: 1 });
      if (NOT_EXECUTED.includes(fault.kind)) {
        if (!this.isTenth(org, request.session, op.id, fault)) return { fault: fault.toValue() };
        fault = new Fault("internal", "B", fault.message, { phase: 1 });
      }
      result = { id: op.id, fault: fault.toValue() };
    }
    kept.set(op.id, { v: write.given, refused: !result.ok, name: op.name, result, at: this.clock() });
    sessions.set(request.session, op.seq);
    this.commit(write);
    return { result };
  }
  isTenth(org, session, id, { phase, kind }) {
    if (phase !== 1 || kind === "O") return false;
    const front = this.tries.get(`${org} ${session}`);
    const count = front?.id === id ? front.count + 1 : 1;
    this.tries.set(`${org} ${session}`, { id, count });
    return count >= 10;
  }
  sync(org, request) {
    const results = [];
    let [weight, aside] = [0, undefined];
    for (const op of request.ops) {
      if (weight >= MIB) break;
      const { result, fault } = this.operate(org, request, op);
      if (fault) {
        aside = fault;
        break;
      }
      results.push(toWireResult(result));
      weight += weightOf(results.at(-1));
    }
    const now = this.tellNow();
    if (aside) this.complete(org, request.ops, results, aside, weight);
    const parts = [];
    const room = { bytes: this.pageBytes };
    for (const sub of request.subs) {
      if (room.bytes <= 0 && parts.length) break;
      const part = this.answer(org, sub, now, room, parts.length === 0);
      if (!part) break;
      parts.push(part);
    }
    const seq = this.db.sessions.get(org)?.get(request.session) ?? 0;
    return { p: 1, epoch: this.db.epoch, now, delta: DELTA_MS, seq, results, parts };
  }
  /** Adds the results of operations known by now, behind the one that was not executed, and its fault once. */
  complete(org, ops, results, fault, weight) {
    const kept = under(this.db.operations, org);
    const first = results.length;
    let at = -1;
    for (let i = first; i < ops.length; i++) {
      const known = kept.get(ops[i].id);
      const result = known && toWireResult(resultOf(ops[i].id, known));
      const fits = result && (known.name ?? ops[i].name) === ops[i].name && weight + weightOf(result) <= 4 * MIB;
      if (fits) {
        results.push(result);
        weight += weightOf(result);
      } else if (known && i !== first) {
        if (at >= 0) results.splice(at, 1);
        return;
      } else if (at < 0) {
        at = results.length;
        results.push({ id: ops[i].id, fault: i === first ? fault : new Fault("contention", "C", "it waits for another one").toValue() });
      }
    }
  }
  /** The changes of a def, ascending, or nothing if there is no such def. */
  changes(org, def) {
    const [, name, collection, hash] = DEF.exec(def) ?? [];
    const cls = this.classes.get(name);
    if (!cls?.sync || (collection && !(cls.collections.has(collection) && hash))) return undefined;
    const documents = this.db.documents.get(`${org} ${name}`) ?? new Map();
    let changes;
    if (collection) {
      const members = [...(this.db.memberships.get(`${org} ${def}`) ?? [])];
      changes = members.map(([pk, { v, state }]) => ({ pk, ...(state === "alive" && documents.get(pk)), v, state }));
    } else {
      const all = hash ? [[hash, documents.get(hash)]].filter(([, document]) => document) : [...documents];
      changes = all.map(([pk, document]) => ({ pk, ...document, state: document.deleted ? "deleted" : "alive" }));
    }
    return changes.sort(ascending);
  }
  answer(org, [def, v, cursor], now, room, isFirst) {
    const changes = this.changes(org, def);
    if (!changes) return { def, fault: unknownDef().toValue() };
    let at = { now, after: undefined, total: undefined };
    if (cursor !== undefined && !(at = this.readCursor(cursor, org, def, v))) {
      return { def, fault: new Fault("bad_cursor", "N", "no cursor of this answer").toValue() };
    }
    const isEnded = ({ maxLife }) => maxLife !== undefined && maxLife * 60_000 <= now;
    const goneFrom = v === 0 ? at.now - DELTA_MS : 0;
    const isListed = (change) => change.v >= v && ((change.state === "alive" && !isEnded(change)) || change.v >= goneFrom);
    const listed = changes.filter(isListed);
    const total = at.total ?? listed.filter(({ state }) => state !== "left").length;
    const part = { def, rows: [], left: [], total };
    let last;
    for (const change of listed) {
      if (at.after && ascending(change, { v: at.after[0], pk: at.after[1] }) <= 0) continue;
      const isDeleted = change.state === "deleted" || isEnded(change);
      const item = change.state === "left" ? [change.pk, change.v] : toWire(rowOf(change.pk, { ...change, deleted: isDeleted }));
      const weight = weightOf(item);
      if (weight > room.bytes && (last || !isFirst)) {
        if (!last) return undefined;
        room.bytes = 0;
        return { ...part, next: this.writeCursor({ now: at.now, after: last, total }, org, def, v) };
      }
      room.bytes -= weight;
      last = [change.v, change.pk];
      (change.state === "left" ? part.left : part.rows).push(item);
    }
    if (v === 0 || v < this.db.horizon) {
      part.present = changes.filter((change) => change.state === "alive" && !isEnded(change)).map(({ pk }) => pk);
      room.bytes -= 24 * part.present.length;
    }
    return part;
  }
  sign(payload, org, def, v) {
    const bound = JSON.stringify([org, def, v, this.db.epoch, payload]);
    return createHmac("sha256", this.db.cursorKey).update(bound).digest("base64url");
  }
  writeCursor(at, org, def, v) {
    const payload = Buffer.from(JSON.stringify(at)).toString("base64url");
    return `${payload}.${this.sign(payload, org, def, v)}`;
  }
  readCursor(cursor, org, def, v) {
    const [payload, signature] = cursor.split(".");
    if (signature !== this.sign(payload, org, def, v)) return undefined;
    return JSON.parse(Buffer.from(payload, "base64url").toString());
  }
  purge() {
    const { db } = this;
    const horizon = Math.max(db.horizon, this.clock() - this.retentionMs);
    const isOver = ({ v, deleted, maxLife }) =>
      v < horizon && (deleted || (maxLife !== undefined && maxLife * 60_000 + this.retentionMs <= this.clock()));
    let went = false;
    const remove = (rows, pk) => (went = rows.delete(pk));
    for (const [name, rows] of db.documents) {
      for (const [pk, document] of rows) {
        if (!isOver(document)) continue;
        for (const link of document.links) db.memberships.get(`${name}/${link}`)?.delete(pk);
        remove(rows, pk);
      }
    }
    for (const rows of db.memberships.values()) {
      for (const [pk, { v, state }] of rows) if (state !== "alive" && v < horizon) remove(rows, pk);
    }
    if (went) db.horizon = horizon;
    for (const rows of db.operations.values()) {
      for (const kept of rows.values()) if (kept.at + 90 * DAY_MS <= this.clock()) delete kept.result, delete kept.name;
    }
  }
  restore(copy) {
    const [ms] = this.db.epoch;
    this.db = copy.copy();
    this.db.epoch = [Math.max(this.clock(), ms + 1), randomBytes(8).toString("hex")];
  }
}

function resultOf(id, { result, refused }) {
  if (result) return result;
  const fault = refused ? new Fault("internal", "B", "its refusal is too old") : new Fault("forgotten", "N", "its result is too old");
  return { id, fault: fault.toValue() };
}
