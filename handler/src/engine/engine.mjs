// The protocol on a storage: it executes operations, each once, and answers pulls (docs/protocol.md). It knows no HTTP and no
// sockets, and takes messages that are checked.
//
// Invariants: a reply's `now` is read before its snapshot, and a snapshot sees each write that began before it. So no
// session misses a write (R4).
import { contention, Fault } from "./fault.mjs";
import { fitSome, isOtherShape, shapeOf } from "./fit.mjs";
import { fromBase64Url, randomText } from "./hash.mjs";
import { BUILT_IN, runOwn } from "./operations.mjs";
import { purgeSome } from "./purge.mjs";
import { Reader } from "./reader.mjs";
import { run } from "./run.mjs";
import { classesOf } from "./schema.mjs";
import { conflictRow, HEAD, keyOf, keyOfOperation, META, OPERATIONS, ORGS, READERS, SESSIONS } from "./tables.mjs";
import { same, sizeOf } from "./values.mjs";
import { Write } from "./write.mjs";

const MIB = 1 << 20;
const DAY_MS = 86_400_000;
/** A write takes a second at most, and the clocks of two instances may differ by this less a second. */
const DELTA_MS = 2_000;
/** A `now` may be so far above the stored one. */
const AHEAD_MS = 500;
/** Results end early after this time. */
const PATIENCE_MS = 20_000;
const ATTEMPTS_MAX = 10;
const REMEMBERED_MAX = 4_096;
/** Sessions of an account whose numbers are kept though they began without the right to write. */
const SESSIONS_OF_READER_MAX = 16;

const stored = (value) => ({ v: 0, at: 0, state: "alive", value });
const without = (map, names) => Object.fromEntries(Object.entries(map).filter(([name]) => !names.has(name)));

export class Engine {
  /**
   * `storage` and `schema` are required. `operations` has those of the application. `before` is called with each new
   * operation; it may write, or throw the fault of the operation.
   */
  constructor({ storage, schema, operations = {}, before, clock = Date.now, retentionMs = 365 * DAY_MS, resultsMs = 90 * DAY_MS, pageBytes = MIB, deltaMs = DELTA_MS, writeMs = 1_000, onError = () => {} }) {
    const classes = classesOf(schema);
    Object.assign(this, { storage, classes, before, clock, retentionMs, resultsMs, deltaMs, writeMs, onError });
    this.operations = { ...BUILT_IN };
    for (const [name, own] of Object.entries(operations)) {
      if (Object.hasOwn(BUILT_IN, name) || typeof own !== "function") throw new TypeError(`operations: ${name} is built in, or no function`);
      this.operations[name] = (write, args) => runOwn(write, own, name, args, this);
    }
    const locals = new Set(Object.keys(schema).filter((name) => schema[name].local));
    this.reader = new Reader({ classes, locals, deltaMs, pageBytes });
    /**
     * Called after each write with the org, the defs that it changed with their versions, and its time; without an org if
     * writes of other instances may have been missed.
     */
    this.listeners = new Set();
    /** Writes of all orgs exclude each other if a value may be unique in all of them. */
    this.isOneLock = [...classes.values()].some(({ indexes }) => indexes.some(({ global }) => global));
    /** By org: a lower bound of the time that its versions and replies have reached. */
    this.reached = new Map();
    /** By session: the operation at its front that failed, and how often. */
    this.attempts = new Map();
    // Without an org, writes may have been missed.
    storage.listen?.((org, defs, time = clock()) => this.tell(org, defs && new Map(defs), time));
  }
  lockOf(org) {
    return this.isOneLock ? "" : org;
  }
  read(org, look) {
    return this.storage.read(this.lockOf(org), (tx) => run(look(tx)));
  }
  change(org, act) {
    return this.storage.write(this.lockOf(org), (tx) => run(act(tx)));
  }

  // ---- The state of the server, and of an org ----

  /** Makes the epoch and the key of cursors, in a storage that has none. */
  *opened() {
    if (this.isOpen) return;
    try {
      yield (this.opening ??= run(this.open()));
      this.isOpen = true;
    } finally {
      // After a failure the next request tries again.
      if (!this.isOpen) this.opening = undefined;
    }
  }
  *open() {
    yield this.storage.write("", (tx) => run(this.begin(tx)));
    const shapes = Object.fromEntries([...this.classes].map(([name, cls]) => [name, shapeOf(cls)]));
    const other = yield this.change("", (tx) => this.adopt(tx, shapes));
    if (other.length === 0) return;
    yield* this.eachOrg((org) => this.fit(org, other));
    yield this.change("", (tx) => this.adopted(tx, shapes));
  }
  /**
   * Begins the generation of a schema in which classes have another shape (R38). From here on instances with an earlier schema
   * write no more: their documents would lack links. Returns the classes whose documents are stored again; also those that
   * another instance has not ended.
   */
  *adopt(tx, shapes) {
    const { known, fitting, generation } = yield* this.generationIn(tx);
    const other = [...this.classes.values()].filter(({ name }) => isOtherShape(name, known[name], shapes[name]) || Object.hasOwn(fitting, name));
    const isNew = other.some(({ name }) => !same(fitting[name], shapes[name]));
    this.generation = isNew ? generation + 1 : generation;
    if (isNew) {
      const begun = Object.fromEntries(other.map(({ name }) => [name, shapes[name]]));
      yield tx.set([
        ["", META, "fitting", stored({ ...fitting, ...begun })],
        ["", META, "generation", stored(this.generation)],
      ]);
    }
    if (other.length === 0) yield* this.adopted(tx, shapes);
    return other;
  }
  /** All documents are stored in these shapes, unless another instance has begun a later generation. */
  *adopted(tx, shapes) {
    const { known, fitting, generation } = yield* this.generationIn(tx);
    if (generation !== this.generation) return;
    const [all, left] = [{ ...known, ...shapes }, without(fitting, this.classes)];
    if (same(known, all) && same(fitting, left)) return;
    yield tx.set([
      ["", META, "shapes", stored(all)],
      ["", META, "fitting", stored(left)],
    ]);
  }
  *generationIn(tx) {
    const [known, fitting, generation] = yield tx.get("", META, ["shapes", "fitting", "generation"]);
    return { known: known?.value ?? {}, fitting: fitting?.value ?? {}, generation: generation?.value ?? 0 };
  }
  *fit(org, classes) {
    for (const cls of classes) for (let after = [0, ""]; after; ) after = yield this.change(org, (tx) => fitSome(tx, org, cls, after));
  }
  *begin(tx) {
    const [epoch, key, told] = yield tx.get("", META, ["epoch", "cursors", "told"]);
    if (epoch && key && told) return;
    yield tx.set([
      ["", META, "epoch", stored([this.clock(), randomText(12)])],
      ["", META, "cursors", stored(randomText(32))],
      ["", META, "told", stored(0)],
    ]);
  }
  /** The epoch, the head of an org, and the time that its versions have reached. */
  *stateOf(tx, org) {
    const [epoch, key, told, generation] = yield tx.get("", META, ["epoch", "cursors", "told", "generation"]);
    const [head] = yield tx.get(org, HEAD, [""]);
    const { highest = 0, horizon = 0, told: reached = told.value } = head?.value ?? {};
    return { epoch: epoch.value, cursorKey: fromBase64Url(key.value), head: head?.value, highest, horizon, reached, generation: generation?.value ?? 0 };
  }
  /** The part of a confirmation that spares a session the pull of each def that it knows up to there. */
  *head(org) {
    yield* this.opened();
    const look = function* (engine, tx) {
      const { epoch, highest } = yield* engine.stateOf(tx, org);
      return { epoch, highest };
    };
    return yield this.read(org, (tx) => look(this, tx));
  }
  /** Begins a later epoch: after a restore from a backup, sessions then load everything again (R8). */
  *renewEpoch() {
    yield* this.opened();
    const renew = function* (engine, tx) {
      const [{ value }] = yield tx.get("", META, ["epoch"]);
      yield tx.set([["", META, "epoch", stored([Math.max(engine.clock(), value[0] + 1), randomText(12)])]]);
    };
    yield this.storage.write("", (tx) => run(renew(this, tx)));
  }
  noteReached(org, time) {
    if (this.reached.size >= REMEMBERED_MAX && !this.reached.has(org)) this.reached.clear();
    this.reached.set(org, Math.max(time, this.reached.get(org) ?? 0));
  }
  /** The `now` of a reply. A later one is stored first, so that a clock that is set back gives no much earlier version. */
  *tellNow(org) {
    if (!this.reached.has(org)) {
      const look = function* (engine, tx) {
        const { reached, highest } = yield* engine.stateOf(tx, org);
        return Math.max(reached, highest);
      };
      this.noteReached(org, yield this.read(org, (tx) => look(this, tx)));
    }
    const known = this.reached.get(org);
    const wanted = Math.max(this.clock(), known);
    if (wanted <= known + AHEAD_MS) return wanted;
    const store = function* (engine, tx) {
      const { head } = yield* engine.stateOf(tx, org);
      if (head) yield tx.set([[org, HEAD, "", stored({ ...head, told: Math.max(head.told, wanted) })]]);
      return Boolean(head);
    };
    // Orgs without a head have one number for all of them.
    const storeForAll = function* (tx) {
      const [{ value }] = yield tx.get("", META, ["told"]);
      yield tx.set([["", META, "told", stored(Math.max(value, wanted))]]);
    };
    const isOwn = yield this.change(org, (tx) => store(this, tx));
    if (!isOwn) yield this.change("", storeForAll);
    this.noteReached(org, wanted);
    return wanted;
  }

  // ---- Writes ----

  /** The transaction of a write: all that `act` does in it becomes visible together. */
  *writing(org, account, act) {
    const begin = function* (engine, tx) {
      const began = performance.now();
      const state = yield* engine.stateOf(tx, org);
      if (state.generation !== engine.generation) throw new Fault("unavailable", "O", "another instance has adopted another schema: this one writes no more");
      const now = Math.max(engine.clock(), state.reached, state.highest + 1);
      const inTime = () => {
        if (performance.now() - began > engine.writeMs) throw new Fault("contention", "C", "the write took too long", { phase: 1 });
      };
      const done = yield* act({ now, state, inTime, makeWrite: () => new Write({ tx, org, account, now, inTime }) });
      const { write } = done;
      yield* engine.finish(write, state);
      yield tx.set([...write.changes.values()]);
      if (write.defs.size) yield tx.announce?.(org, [...write.defs], write.now);
      return done;
    };
    const done = yield this.change(org, (tx) => begin(this, tx));
    if (done.write?.defs.size) {
      this.noteReached(org, done.write.now);
      if (!this.storage.listen) this.tell(org, done.write.defs, done.write.now);
    }
    return done;
  }
  *finish(write, { head, reached }) {
    if (write.changes.size === 0) return;
    const highest = write.defs.size ? write.now : (head?.highest ?? 0);
    write.set(HEAD, "", stored({ horizon: 0, ...head, highest, told: reached }));
    if (!head) write.set(ORGS, write.org, stored(null), "");
  }
  tell(org, defs, time) {
    for (const listen of this.listeners) listen(org, defs, time);
  }
  /** A write of the server itself. Returns its version, or throws its fault. */
  *write(org, name, args) {
    yield* this.opened();
    const act = function* (engine, { makeWrite, inTime }) {
      const write = makeWrite();
      yield* engine.execute(write, { name, args });
      inTime();
      return { write };
    };
    return (yield* this.writing(org, "", (scope) => act(this, scope))).write.given;
  }
  *execute(write, { name, args }) {
    if (!Object.hasOwn(this.operations, name)) throw this.unknownOperation(name);
    return yield* this.operations[name](write, args, this);
  }
  unknownOperation() {
    return new Fault("unknown_operation", "A", "no such operation");
  }
  /** The fault of an operation of the application that threw something else than a fault. */
  failed(name, error) {
    this.onError(error);
    return new Fault("internal", "B", `the operation ${name} failed: the server's log says more`, { phase: 1 });
  }

  /** The living documents of a class, ascending by pk. */
  *documents(org, className) {
    yield* this.opened();
    const cls = this.classes.get(className);
    if (!cls) return [];
    const now = yield* this.tellNow(org);
    return yield this.read(org, (tx) => this.reader.documents({ tx, org, now }, cls));
  }

  // ---- Operations of sessions ----

  /** Executes an operation and returns its result. Throws a fault that is passing if it was not executed. */
  *operate(org, caller, request, op) {
    let refusal;
    if (this.before && (yield this.read(org, (tx) => this.isNew(tx, org, caller, request, op)))) {
      try {
        this.before(op);
      } catch (error) {
        refusal = error instanceof Fault ? error : this.failed(op.name, error);
      }
    }
    return (yield* this.writing(org, caller.account, (scope) => this.attempt(scope, org, caller, request, op, refusal))).result;
  }
  *isNew(tx, org, { account }, { session }, op) {
    const [known] = yield tx.get(org, OPERATIONS, [keyOfOperation(account, op.id)]);
    const [found] = yield tx.get(org, SESSIONS, [keyOf(session)]);
    return !known && op.seq === (found?.value.last ?? 0) + 1;
  }
  *attempt({ now, state, inTime, makeWrite }, org, caller, { session, epoch }, op, refusal) {
    if (epoch && !same(epoch, state.epoch)) throw contention("another epoch");
    const { account, mayWrite } = caller;
    let write = makeWrite();
    const begun = (yield* write.get(SESSIONS, keyOf(session)))?.value;
    const { last, ...owner } = begun ?? { account, last: 0 };
    if (owner.account !== account) throw new Fault("session_reused", "A", "the session is another account's");
    const count = (to) => to.set(SESSIONS, keyOf(session), stored({ account, last: op.seq }));
    const key = keyOfOperation(account, op.id);
    const known = (yield* write.get(OPERATIONS, key))?.value;
    if (known) {
      if (known.name !== undefined && known.name !== op.name) throw new Fault("bad_value", "A", "the id has another name", { isMistaken: true });
      if (op.seq === last + 1) count(write);
      return { write, result: yield* this.repeated(write, op.id, known) };
    }
    // Kept, it would fill the database without any right. Its answer follows from the caller again.
    if (!mayWrite) {
      if (op.seq === last + 1 && (begun || (yield* this.mayBegin(write, account)))) count(write);
      return { write, result: { id: op.id, fault: new Fault("forbidden", "S", "the token may only read").toMap() } };
    }
    if (op.seq > last + 1) throw new Fault("order_gap", "C", "operations before it are missing");
    if (op.seq <= last) throw new Fault("session_reused", "A", "the number is another operation's");
    if (op.after !== undefined) {
      const earlier = (yield* write.get(OPERATIONS, keyOfOperation(account, op.after)))?.value;
      if (!earlier || earlier.refused) throw new Fault("order_held", "C", "it waits for another one");
    }
    let result;
    let met;
    try {
      if (refusal) throw refusal;
      const value = yield* this.execute(write, op);
      inTime();
      const trees = yield* write.trees();
      result = { id: op.id, ok: { v: write.given, ...(value !== undefined && { value }), ...(trees.length && { trees }) } };
    } catch (error) {
      const fault = this.judge(error, `${org}\n${account}\n${session}`, op);
      write = makeWrite();
      result = { id: op.id, fault: fault.toMap() };
      met = fault.met;
    }
    const kept = { v: write.given, refused: !result.ok, name: op.name, result };
    // No document: a refused write of a few bytes would keep all of a large one.
    if (met) Object.assign(kept, { met, result: { id: op.id, fault: without(result.fault, new Set(["doc"])) } });
    write.set(OPERATIONS, key, { v: Math.max(1, this.clock()), at: now, state: "alive", value: kept });
    count(write);
    this.attempts.delete(`${org}\n${account}\n${session}`);
    return { write, result };
  }
  /** Counts another session of an account that may not write, unless it has as many as are kept. */
  *mayBegin(write, account) {
    const { sessions } = (yield* write.get(READERS, keyOf(account)))?.value ?? { sessions: 0 };
    if (sessions >= SESSIONS_OF_READER_MAX) return false;
    write.set(READERS, keyOf(account), stored({ sessions: sessions + 1 }));
    return true;
  }
  /** The result of an operation that comes again. That of a conflict has the document as it is now. */
  *repeated(write, id, known) {
    const result = resultOf(id, known);
    const cls = known.met && result === known.result && this.classes.get(known.met[0]);
    if (!cls) return result;
    const [, pk] = known.met;
    return { ...result, fault: { ...result.fault, doc: conflictRow(pk, yield* write.document(cls, pk)) } };
  }
  /**
   * The fault that is the result of an operation. Throws one that leaves it unexecuted, up to the tenth attempt: nothing of
   * its session overtakes it (R12).
   */
  judge(error, session, op) {
    if (error instanceof Fault && !error.isPassing) return error;
    const { kind = "X", code } = error;
    if (error instanceof Fault && (kind === "O" || code === "order_held" || !"CX".includes(kind))) throw error;
    const { id, count } = this.attempts.get(session) ?? {};
    const attempts = id === op.id ? count + 1 : 1;
    if (this.attempts.size >= REMEMBERED_MAX && id === undefined) this.attempts.clear();
    this.attempts.set(session, { id: op.id, count: attempts });
    if (!(error instanceof Fault)) this.onError(error);
    const fault = error instanceof Fault ? error : passing(error);
    if (attempts < ATTEMPTS_MAX) throw fault;
    return new Fault("internal", "B", `it failed ${attempts} times: ${fault.message}`, { phase: 1 });
  }

  // ---- Requests ----

  /** Answers a request, `{ session, epoch?, ops, subs, page? }`, of a caller, `{ account, mayWrite }`. */
  *sync(org, caller, request) {
    yield* this.opened();
    const [results, { ops }, began] = [[], request, performance.now()];
    let [weight, fault] = [0, undefined];
    try {
      for (const op of ops) {
        if (weight >= MIB || performance.now() - began > PATIENCE_MS) break;
        results.push(yield* this.operate(org, caller, request, op));
        weight += sizeOf(results.at(-1));
      }
    } catch (error) {
      fault = error instanceof Fault ? error : passing(error);
      if (fault !== error) this.onError(error);
    }
    const now = yield* this.tellNow(org);
    return yield this.read(org, (tx) => this.reply(tx, { org, caller, request, results, fault, now }));
  }
  *reply(tx, { org, caller, request, results, fault, now }) {
    const { epoch, cursorKey, horizon } = yield* this.stateOf(tx, org);
    if (fault) yield* this.complete(tx, org, caller.account, request.ops, results, fault);
    const parts = yield* this.reader.parts({ tx, org, caller, now, epoch, cursorKey, horizon }, request.subs, request.page);
    const [session] = yield tx.get(org, SESSIONS, [keyOf(request.session)]);
    const { account, last = 0 } = session?.value ?? {};
    const seq = account === caller.account ? last : 0;
    return { p: 1, epoch, now, delta: this.deltaMs, seq, results, parts };
  }
  /** Adds the results of operations that are known, from the one that was not executed on, and its fault once. */
  *complete(tx, org, account, ops, results, fault) {
    const first = results.length;
    const found = yield tx.get(org, OPERATIONS, ops.slice(first).map(({ id }) => keyOfOperation(account, id)));
    let at = -1;
    let weight = sizeOf(results);
    for (let i = first; i < ops.length; i++) {
      const { id, name } = ops[i];
      const known = found[i - first]?.value;
      const result = known && (known.name ?? name) === name ? yield* this.repeated(new Write({ tx, org, account }), id, known) : undefined;
      weight += result ? sizeOf(result) : 0;
      if (result && weight <= 4 * MIB) results.push(result);
      else if (known && i > first) {
        if (at >= 0) results.splice(at, 1);
        return;
      } else if (at < 0) {
        at = results.length;
        results.push({ id, fault: (i === first ? fault : contention("it waits for another one")).toMap() });
      }
    }
  }

  // ---- Purge ----

  /** Removes all that sessions need no more, in short transactions. Call it once an hour; several instances may. */
  *purge() {
    yield* this.opened();
    const all = function* (engine, org) {
      while (yield engine.change(org, (tx) => engine.purgeStep(tx, org)));
    };
    yield* this.eachOrg((org) => all(this, org));
  }
  *eachOrg(act) {
    for (let after = [0, ""]; after; ) {
      const orgs = yield this.storage.read("", (tx) => tx.page("", ORGS, { after, limit: 1_000 }));
      for (const [org] of orgs) yield* act(org);
      after = orgs.length < 1_000 ? undefined : [0, orgs.at(-1)[0]];
    }
  }
  *purgeStep(tx, org) {
    const { head } = yield* this.stateOf(tx, org);
    const { classes, retentionMs, resultsMs } = this;
    return yield* purgeSome({ tx, org, classes, now: this.clock(), head, retentionMs, resultsMs });
  }
}

/** The failure of a storage as a fault: the session sends the operation again. */
const passing = ({ isContention }) => (isContention ? contention("another write was in the way") : new Fault("server_error", "X", "the storage failed", { phase: 1 }));

function resultOf(id, { result, refused }) {
  if (result) return result;
  const fault = refused ? new Fault("internal", "B", "the reason of its refusal is too old") : new Fault("forgotten", "N", "its result is too old");
  return { id, fault: fault.toMap() };
}

