/**
 * Keeps the core of a session alive when its instance of the wasm dies of a bug: fails the calls that wait, and opens
 * the core again in another instance.
 */

import type { Core, Death } from "./core.js";
import { EscaleError, raise, stopped, toEscaleError } from "../base/errors.js";
import { checkUnicode } from "../base/unicode.js";

/**
 * An open core, and the way to learn that its instance of the wasm died. If the glue has no `onDeath`, the session ends
 * with its instance.
 */
export interface Opened {
  core: Core;
  /** The glue's `onDeath`. */
  onDeath: ((listener: (death: Death) => void) => () => void) | undefined;
  /** Whether the instance has died. This is known immediately, before any listener is called. */
  isDead: () => boolean;
  /** Gives the instance back: the core no longer uses it. */
  giveBack: () => void;
}

/** The part of a session in a recovery. */
export interface Recovery {
  /** Opens the core again, in another instance. */
  reopen(): Promise<Opened>;
  /** Another core is in use: everything that names things of the earlier one must be renewed. */
  recovered(): void;
  /** The core cannot be recovered. */
  ended(error: EscaleError): void;
}

/** Two deaths within this time are no accident: the session ends. */
const DEATHS_APART_MS = 10_000;

/** Calls that can wait for another core, because they name nothing of the earlier one. */
const RETRYABLE = ["setMode", "flush", "end", "inspect", "history", "sweep", "query"] as const satisfies (keyof Core)[];
/** Whether a call has reached its goal if the core ends meanwhile. */
const isEnding = (name: Call, [word]: unknown[]): boolean => name === "end" && word !== "wiped";
/** Calls that fail if there is no core. */
type Immediate =
  | "def" | "subscribe" | "unsubscribe" | "subscriptions" | "list" | "changes" | "read" | "find" | "watch" | "meta" | "write" | "amend" | "discard"
  | "operations" | "settleFiles" | "files" | "fileKeys" | "lostByServer" | "changePassphrase" | "memory";
/** Every method of {@link Core}: a new one must be on one of the two lists, or `get` below does not compile. */
type Call = (typeof RETRYABLE)[number] | Immediate;

/**
 * The core of a session, in whichever instance of the wasm it currently is. If an instance dies of a bug, its waiting
 * calls fail with `panicked`. Then the core is opened again from the records on the device.
 */
export class Supervisor {
  /** The core: a proxy that calls the method in the current instance. */
  readonly core: Core;
  /** Dropped with the session, because it knows the secret that the core was opened with. */
  #session: Recovery | undefined;
  /** Removes the listener for the instance's death. */
  #stop: (() => void) | undefined;
  #opened: Opened | undefined;
  #recovery: Promise<void> | undefined;
  #lastDeath = -Infinity;
  #isOver = false;
  /** Promises of the core that have not settled. */
  readonly #underWay = new Set<Promise<unknown>>();
  /** Functions that fail the waiting calls. */
  readonly #waiting = new Set<(error: EscaleError) => void>();

  constructor(opened: Opened, session: Recovery) {
    this.#session = session;
    this.diesWithInstance = opened.onDeath === undefined;
    this.core = new Proxy({} as Core, {
      get: (_, name) =>
        typeof name === "string" && name !== "then" ? (...values: unknown[]) => this.#call(name as keyof Core, values) : undefined,
    });
    this.#live(opened);
  }

  /** Whether the death of the instance ends the session: its glue has no `onDeath`. */
  readonly diesWithInstance: boolean;

  /** Whether there is a core that can be called at once. */
  get isReady(): boolean {
    return this.#opened !== undefined && !this.#opened.isDead();
  }

  /** Whether there is a core, and no call of it is in progress. */
  get isIdle(): boolean {
    return this.isReady && this.#underWay.size === 0 && !this.#isOver;
  }

  /**
   * Replaces this core, which must be idle, by another one and closes it. Everything that names things of it must be
   * renewed.
   */
  swap(opened: Opened): void {
    const old = this.#opened;
    this.#stop?.();
    this.#live(opened);
    this.#session?.recovered();
    if (old) closeCore(old);
  }

  /** Resolves once there is a core again, or once it is certain that there will be none. */
  async settled(): Promise<void> {
    await this.#recovery;
  }

  /** The session is over: the core is not opened again. */
  end(): void {
    this.#isOver = true;
  }

  /**
   * The core has closed. It is freed as soon as no call is in progress, without waiting for the garbage collector. It
   * cannot be freed earlier: wasm-bindgen throws if an object is freed during a call of it.
   */
  free(): void {
    this.#isOver = true;
    const opened = this.#opened;
    this.#opened = this.#session = undefined;
    this.#stop?.();
    this.#stop = undefined;
    if (!opened) return;
    if (this.#underWay.size === 0) freeCore(opened);
    else void Promise.allSettled(this.#underWay).then(() => freeCore(opened));
  }

  #live(opened: Opened): void {
    this.#opened = opened;
    this.#stop = opened.onDeath?.((death) => this.#die(opened, death));
  }

  #call(name: Call, values: unknown[]): unknown {
    const opened = this.#opened;
    if (!opened && this.#isOver && !this.#recovery) throw raise("closed", "the session is closed");
    if (!opened || opened.isDead()) {
      if ((RETRYABLE as readonly Call[]).includes(name)) return this.#late(name, values);
      throw raise("panicked", "the wasm stopped on a bug, and is being started again");
    }
    let result: unknown;
    try {
      // The one place where text crosses. Those who ask have checked theirs, and name it better.
      for (const value of values) if (typeof value === "string") checkUnicode(value, name);
      result = (opened.core[name] as (...values: unknown[]) => unknown)(...values);
    } catch (error) {
      throw this.#sorted(opened, error);
    }
    return result instanceof Promise ? this.#wait(opened, result, isEnding(name, values)) : result;
  }

  /** Makes a call in the next core, once there is one. */
  async #late(name: Call, values: unknown[]): Promise<unknown> {
    // If no listener has been called for this death yet, the recovery begins only then.
    const { onDeath } = this.#opened ?? {};
    if (onDeath) await new Promise<void>((resolve) => onDeath(() => resolve()));
    await this.#recovery;
    if (this.#opened) return this.#call(name, values);
    if (isEnding(name, values)) return undefined;
    throw raise("panicked", "the wasm stopped on a bug, and could not be started again");
  }

  /** Passes on a promise of the core, and fails it if the core dies first. */
  #wait(opened: Opened, result: Promise<unknown>, isEnd: boolean): Promise<unknown> {
    this.#underWay.add(result);
    const over = (): boolean => this.#underWay.delete(result);
    result.then(over, over);
    if (!opened.onDeath) return result;
    return new Promise((resolve, reject) => {
      const fail = (error: EscaleError): void => {
        // The call was to end the core, and the core has ended.
        if (isEnd) resolve(undefined);
        else reject(error);
      };
      this.#waiting.add(fail);
      result
        .then(resolve, (error: unknown) => reject(toEscaleError(this.#sorted(opened, error))))
        .finally(() => this.#waiting.delete(fail));
    });
  }

  /** Gives an error of the core as it is. Errors of a dead core mean nothing, and become `panicked`. */
  #sorted(opened: Opened, error: unknown): unknown {
    return opened.isDead() ? stopped(error) : error;
  }

  #die(opened: Opened, { error, released }: Death): void {
    if (this.#opened === opened) this.#opened = undefined;
    opened.giveBack();
    const panicked = stopped(error);
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#underWay.clear();
    const now = performance.now();
    const isAgain = now - this.#lastDeath < DEATHS_APART_MS;
    this.#lastDeath = now;
    if (this.#isOver || isAgain) {
      this.#recovery = undefined;
      for (const fail of waiting) fail(panicked);
      if (!this.#isOver) this.#session?.ended(panicked);
      return;
    }
    this.#recovery = this.#recover(released, panicked);
    for (const fail of waiting) fail(panicked);
  }

  async #recover(released: Promise<void>, panicked: EscaleError): Promise<void> {
    try {
      await released;
      if (!this.#session) return;
      const opened = await this.#session.reopen();
      if (!this.#session) {
        closeCore(opened);
        return;
      }
      this.#live(opened);
      if (this.#isOver) await opened.core.end("closed");
      else this.#session.recovered();
    } catch (cause) {
      this.#opened = undefined;
      if (!this.#isOver) this.#session?.ended(raise("panicked", panicked.message, toEscaleError(cause)));
    } finally {
      this.#recovery = undefined;
    }
  }
}

/** Frees a core, then gives its instance back. */
export function freeCore({ core, giveBack }: Opened): void {
  (core as { free?(): void }).free?.();
  giveBack();
}

/** Closes a core that nobody waits for. */
export function closeCore(opened: Opened): void {
  const free = (): void => freeCore(opened);
  if (opened.isDead()) free();
  else opened.core.end("closed").then(free, free);
}
