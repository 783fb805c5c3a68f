/** A world for tests: a server in memory, devices in memory, and sessions that a test cuts off, kills and lets settle. */

import { copyOf, Fault } from "escale-handler/engine";
import type { ErrorKind, KindLetter } from "../base/error-codes.js";
import { init, internal, type EscaleError } from "../index.js";
import type { OpenInMemory } from "../package.js";
import type { OpenOptions } from "../session/options.js";
import { faultOf, raised } from "../platform/errors.js";
import type { ClassName, DocumentOf, KeyOf, MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import type { Schema } from "../schema/schema.js";
import { encodeArgs, encodeChanges } from "../schema/writing.js";
import type { Session } from "../session/session.js";
import type { InitInput } from "../wasm/wasm.js";
import type { Conflicts, Operations } from "../writes/operation-types.js";
import { MemoryDevice } from "./device.js";
import { followDate, provide, release, tellOnline } from "./environment.js";
import { Line } from "./line.js";
import type { Op, ServerOperation } from "./operations.js";
import { Server } from "./server.js";

/** The org of every world. */
const ORG = "testing";
/** `settled` waits for so long, at most, unless it is given another time. */
const SETTLES_WITHIN_MS = 10_000;
/** `advance` moves the timers in so many steps, at most: requests and answers have their turn in between. */
const STEPS_MAX = 50;
const STEP_MS = 100;
/** The clocks of the runner may be replaced after this module was loaded. */
const { setTimeout: startTimer, clearTimeout: endTimer } = globalThis;

/** The options of {@link testing}. */
export interface TestingOptions<S extends SchemaDeclaration, O extends Operations<S> = Operations<S>> {
  schema: Schema<S>;
  /** The documents that the server holds at first. */
  documents?: { readonly [C in ClassName<S>]?: readonly DocumentOf<S[C]>[] } | undefined;
  /** The operations and conflict policies of the application, for every session. */
  operations?: O | undefined;
  conflicts?: Conflicts<S> | undefined;
  /** The server part of the application's own operations. */
  server?: { readonly [name in keyof O]?: ServerOperation } | undefined;
  /** The server's clock at first; the default is the present. From then on it moves with `Date.now()`. */
  now?: number | Date | undefined;
  /**
   * Moves the fake timers of the runner, for `advance` and `settled`: `(ms) => vi.advanceTimersByTimeAsync(ms)` in Vitest, the same with
   * `jest` in Jest, `(ms) => mock.timers.tick(ms)` in Node. No test waits then.
   */
  clock?: ((ms: number) => unknown) | undefined;
  /** Rows of a page of the server, to try loads of several pages; the default is 1,000. */
  pageRows?: number | undefined;
  /** The source of the wasm, as for `init`. */
  wasm?: InitInput | undefined;
}

/** The options of {@link World.open}: those of `open`, without the ones that a world gives. */
export type WorldOpenOptions<S extends SchemaDeclaration, O extends Operations<S>> = Partial<
  Omit<OpenOptions<S, O>, "org" | "schema" | "server" | "account">
> & {
  /** The device, by a name of the test's own; the default is `device`. Saved data outlives its session. */
  device?: string | undefined;
};

/** A refusal of an operation by the server. */
export interface Refusal {
  /** The default is `forbidden`. Codes of the application's own server are possible as well. */
  code?: string | undefined;
  /** The default is `refused`. The session sends operations of the kinds `retry`, `unexpected` and `unavailable` again. */
  kind?: Exclude<ErrorKind, "bug" | "outdated"> | undefined;
  message?: string | undefined;
}

/** The error that the server part of an operation throws, to refuse it. */
export function refusal({ code = "forbidden", kind = "refused", message = "the test refuses this operation" }: Refusal = {}): Error {
  const [letter] = Object.entries(internal.KINDS).find(([, word]) => word === kind) ?? [];
  if (!letter) throw raised("bad_option", `kind: ${kind} is none`);
  return new Fault(code, letter as KindLetter, message, { phase: 1 });
}

interface Device {
  memory: MemoryDevice;
  opener: OpenInMemory;
}

interface Opened<S extends SchemaDeclaration, O extends Operations<S>> {
  readonly session: Session<S, O>;
  readonly line: Line;
  readonly device: string | undefined;
}

/**
 * Makes a world: a server in memory that holds `documents`, and any number of devices and sessions.
 *
 *     const world = await testing({ schema, documents: { Note: [{ id: "a", text: "x" }] } });
 *     const session = await world.open();
 *     world.offline();
 *     session.put("Note", { id: "b", text: "y" });
 *     world.online();
 *     await world.settled();
 *     expect(world.docs("Note")).toHaveLength(2);
 *     await world.close();
 */
export async function testing<S extends SchemaDeclaration, O extends Operations<S> = Operations<S>>(
  options: TestingOptions<S, O>,
): Promise<World<S, O>> {
  if (typeof options?.schema?.classes !== "object") throw raised("bad_option", "testing takes { schema } of defineSchema");
  for (const name of Object.keys(options.documents ?? {})) {
    if (!Object.hasOwn(options.schema.classes, name)) throw raised("unknown_class", `documents: the schema has no class ${name}`);
  }
  await init(options.wasm);
  return new World(options);
}

/** The world of a test. */
export class World<S extends SchemaDeclaration, O extends Operations<S>> {
  readonly #options: TestingOptions<S, O>;
  readonly #server: Server;
  /** By name. A session in incognito has a device without one, which is not kept. */
  readonly #devices = new Map<string | undefined, Device>();
  readonly #opened = new Set<Opened<S, O>>();
  readonly #waiting = new Set<() => void>();
  /** The faults and writes that come before the next operations, one for each. */
  readonly #planned: ((op: Op) => void)[] = [];
  // Channels and locks reach the other threads of a test runner.
  readonly #name = crypto.randomUUID();
  #aheadMs: number;
  readonly #stopFollowing: () => void;
  #isCut = false;
  #isOver = false;

  /** @internal */
  constructor(options: TestingOptions<S, O>) {
    this.#options = options;
    const { now = Date.now(), documents = {}, server = {}, pageRows = 1_000 } = options;
    this.#aheadMs = Number(now) - Date.now();
    this.#server = new Server({
      org: ORG,
      classes: options.schema.classes,
      operations: server,
      clock: () => this.now,
      pageRows,
    });
    // Parents come before their items.
    const isItem = (name: string): number => Number(options.schema.classes[name]?.in !== undefined);
    for (const [name, all] of Object.entries(documents).sort(([a], [b]) => isItem(a) - isItem(b))) {
      for (const data of all as readonly object[]) this.#write("doc.put", name, { data: encodeArgs(data) });
    }
    this.#server.before = (op) => this.#planned.shift()?.(op);
    if (options.clock !== undefined && typeof options.clock !== "function") throw raised("bad_option", "clock: takes a function");
    provide();
    this.#stopFollowing = options.clock ? followDate() : () => {};
  }

  /** The server's clock, in milliseconds since 1970. */
  get now(): number {
    return Date.now() + this.#aheadMs;
  }

  /** Opens a session on a device. A device has one session at a time, as one page. */
  async open({ device = "device", ...given }: WorldOpenOptions<S, O> = {}): Promise<Session<S, O>> {
    this.#guard();
    for (const name of ["org", "schema", "server", "account"]) {
      if (name in given) throw raised("bad_option", `${name}: the world gives it`);
    }
    const stored = given.mode === "incognito" ? undefined : device;
    if (stored !== undefined && [...this.#opened].some((one) => one.device === stored)) {
      throw raised("bad_option", `device: ${device} has an open session; close or kill it, or name another device`);
    }
    const line = new Line(this.#server, () => this.#wake());
    if (this.#isCut) line.isCut = true;
    const { schema, operations, conflicts } = this.#options;
    const secret = stored !== undefined && given.passphrase === undefined && given.key === undefined ? { key: new Uint8Array(32).fill(7) } : {};
    // Two devices are never two tabs of one store.
    const account = `${this.#name}-${stored ?? "incognito"}`;
    const options = { operations, conflicts, ...given, ...secret, org: ORG, account, schema, server: line.adapter };
    const { memory, opener } = await this.#device(stored);
    const session = (await opener(options as unknown as OpenOptions<S>, memory.factory)) as unknown as Session<S, O>;
    const opened = { session, line, device: stored };
    this.#opened.add(opened);
    session.status.subscribe(({ phase }) => {
      if (phase === "closed") this.#end(opened);
      this.#wake();
    });
    return session;
  }

  /** Cuts the network of one session, or of all and of those that open later. */
  offline(session?: Session<S, O>): void {
    this.#guard();
    if (!session) this.#isCut = true;
    for (const line of this.#lines(session)) line.cut();
  }

  /** Mends the network. Sessions that wait for their next attempt make it now. */
  online(session?: Session<S, O>): void {
    this.#guard();
    if (!session) this.#isCut = false;
    for (const line of this.#lines(session)) line.mend();
    tellOnline();
  }

  /** Holds every request of the session, or of all, until the function that it returns is called. */
  slow(session?: Session<S, O>): () => void {
    this.#guard();
    const opens = this.#lines(session).map((line) => line.hold());
    return () => opens.forEach((open) => open());
  }

  /** The server carries out the next request of the session, or of each, and its answer is lost. */
  loseAnswer(session?: Session<S, O>): void {
    this.#guard();
    for (const line of this.#lines(session)) line.loseAnswer();
  }

  /** The server refuses the next operation of any session. */
  refuse(why: Refusal = {}): void {
    this.#guard();
    const fault = refusal(why);
    this.#planned.push(() => {
      throw fault;
    });
  }

  /**
   * The server ends the right to these documents: sessions that are subscribed to them have the fault `withdrawn`, and lose
   * them. The function that it returns gives the right back.
   */
  withdraw<C extends ClassName<S>>(className: C, match: MatchOf<S[C]>): () => void {
    this.#guard();
    return this.#server.withdraw(className, match);
  }

  /** Another user's write comes in between: `write` is called right before the next operation of any session. */
  conflict(write: (world: this) => void): void {
    this.#guard();
    this.#planned.push(() => write(this));
  }

  /**
   * Ends the session's page without a close. Its device has the saved data and nothing else, and the page's next request
   * never arrives.
   */
  async kill(session: Session<S, O>): Promise<void> {
    this.#guard();
    const opened = this.#find(session);
    opened.line.isOver = true;
    const device = this.#devices.get(opened.device);
    // From here on the page writes to records that nobody opens.
    if (device) device.memory = device.memory.copy();
    this.#end(opened);
    await session.close();
  }

  /**
   * Moves the server's clock. A document whose `maxLife` has passed ends at the next pull. With the option `clock` it moves
   * the sessions' timers as well, and resolves once all that was due has begun.
   */
  advance(ms: number): Promise<void> {
    this.#guard();
    if (!(Number.isFinite(ms) && ms >= 0)) throw raised("bad_option", "advance takes milliseconds");
    const { clock } = this.#options;
    if (clock) return this.#pass(ms, clock);
    this.#aheadMs += ms;
    return Promise.resolve();
  }

  async #pass(ms: number, clock: (ms: number) => unknown): Promise<void> {
    const until = this.now + ms;
    const steps = Math.min(STEPS_MAX, Math.ceil(ms / STEP_MS));
    for (let step = 0, passed = 0; step < steps; step++) {
      const next = Math.round((ms * (step + 1)) / steps);
      await clock(next - passed);
      passed = next;
      for (let calm = 0; calm < 3; calm++) await turn();
    }
    // The runner's clock may leave `Date` alone.
    this.#aheadMs += until - this.now;
  }

  /** Writes a document on the server, as another user. Sessions hear of it. Returns its version. */
  put<C extends ClassName<S>>(className: C, data: DocumentOf<S[C]>): number {
    return this.#write("doc.put", className, { data: encodeArgs(data) });
  }

  /** Changes properties of a document on the server, as another user. */
  patch<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>, changes: Partial<DocumentOf<S[C]>>): number {
    return this.#write("doc.patch", className, { key: [...key], ...encodeChanges(changes) });
  }

  /** Deletes a document on the server, as another user. */
  delete<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>): number {
    return this.#write("doc.delete", className, { key: [...key] });
  }

  /** The server's living documents of a class, ascending by key. */
  docs<C extends ClassName<S>>(className: C): DocumentOf<S[C]>[] {
    const declared = this.#options.schema.classes[className];
    if (!declared) throw raised("unknown_class", `the schema has no class ${className}`);
    const found = this.#server.documents(className).map(({ data }) => {
      const own = copyOf(data);
      delete own["release"];
      return own;
    });
    const keyOf = (data: object): string => declared.key.map((name) => String((data as { [name: string]: unknown })[name])).join("/");
    return found.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)) as unknown as DocumentOf<S[C]>[];
  }

  /**
   * Resolves once no session that has a network has anything to send. By then each has had the server's last change, has
   * saved it, and has called its callbacks. Refused operations stay. Fails with `timeout` after `within` milliseconds, 10 s
   * by default, and names the session that does not settle. With the option `clock` it moves the timers until then.
   */
  async settled({ within = SETTLES_WITHIN_MS }: { within?: number | undefined } = {}): Promise<void> {
    this.#guard();
    const { clock } = this.#options;
    let isLate = false;
    const timer = startTimer(() => {
      isLate = true;
      this.#wake();
    }, within);
    try {
      for (let calm = 0; calm < 3; ) {
        const unsettled = this.#unsettled();
        if (unsettled === undefined) {
          calm += 1;
          for (const { session, device } of [...this.#opened]) if (device !== undefined) await session.flush();
          do await turn();
          while ([...this.#opened].some(({ session }) => session.isReading));
          continue;
        }
        calm = 0;
        if (isLate) throw late(unsettled);
        // A session may wait for a timer, which nothing else moves.
        if (clock) await this.#pass(STEP_MS, clock);
        else await new Promise<void>((resolve) => this.#waiting.add(resolve));
      }
    } finally {
      endTimer(timer);
    }
  }

  /** Closes every session and ends the world. */
  async close(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await Promise.all([...this.#opened].map(({ session }) => session.close()));
    this.#stopFollowing();
    release();
  }

  /** The first session that is not settled, and why. */
  #unsettled(): string | undefined {
    for (const { session, line, device = "incognito" } of this.#opened) {
      const { phase, mode, error } = session.status.value;
      if (line.isCut || mode === "avion") continue;
      const waiting = session.pending().filter(({ state }) => state !== "held");
      const told = error ? `, its error is ${error.code}` : "";
      if (waiting.length > 0) return `${device} still has ${waiting.length} operations to send${told}`;
      // The server has no local classes.
      const defs = session.subscriptions().filter((def) => !this.#options.schema.classes[/^\w*/.exec(def)?.[0] ?? ""]?.local);
      if (defs.length > 0 && phase !== "live") return `${device} is ${phase}${told}`;
      if (!line.isCurrent(defs)) return `${device} has not had the server's last change${told}`;
    }
    return undefined;
  }

  async #device(name: string | undefined): Promise<Device> {
    const known = this.#devices.get(name);
    if (known) return known;
    let opener: OpenInMemory | undefined;
    // The hook of rehearsals: an opener of its own, so that devices share no instance of the wasm.
    await init(undefined, { rehearsal: (given) => Promise.resolve(void (opener = given)) });
    if (!opener) throw raised("internal", "init gave no opener");
    const device = { memory: new MemoryDevice(), opener };
    if (name !== undefined) this.#devices.set(name, device);
    return device;
  }

  #write(name: string, className: string, args: object): number {
    this.#guard();
    return this.#server.write({ name, args: { class: className, ...args } });
  }

  #lines(session: Session<S, O> | undefined): Line[] {
    return session ? [this.#find(session).line] : [...this.#opened].map(({ line }) => line);
  }

  #find(session: Session<S, O>): Opened<S, O> {
    const found = [...this.#opened].find((one) => one.session === session);
    if (!found) throw raised("bad_option", "the session is closed, or of another world");
    return found;
  }

  #end(opened: Opened<S, O>): void {
    opened.line.isOver = true;
    this.#opened.delete(opened);
  }

  #guard(): void {
    if (this.#isOver) throw raised("closed", "the world is closed");
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}

/** The error of `settled`. The session itself has none: it still waits for something. */
function late(unsettled: string): EscaleError {
  const cure = "Release what the test holds (`online()`, the end of `slow()`), or give `testing` the `clock` of fake timers.";
  return faultOf({ timeout: ["X", cure] }, "timeout", `settled: ${unsettled}`);
}

/** Lets everything run that is due: a message comes after it, and no clock of a test holds it back. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
