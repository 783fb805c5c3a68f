import type { Core, Death } from "./core.js";
import { closeCore, freeCore } from "./device.js";
import { EscaleError, raise, toEscaleError } from "./errors.js";

/** A core, and how its instance of the wasm dies; one that cannot tell ends with the session. */
export interface Opened {
  core: Core;
  /** As the glue has it. */
  onDeath: ((listener: (death: Death) => void) => () => void) | undefined;
  /** Whether it has died: known at once, before anybody is told. */
  isDead: () => boolean;
  /** The core uses its instance no more. */
  giveBack: () => void;
}

/** What is to be done around a death. */
export interface Care {
  /** Opens the core again, in another instance. */
  reopen(): Promise<Opened>;
  /** Another core is there: what named things of the earlier one must be named anew. */
  recovered(): void;
  /** It cannot be recovered. */
  ended(error: EscaleError): void;
}

/** Two deaths within this time are no accident: the session ends. */
const DEATHS_APART_MS = 10_000;

/** What can wait for another core: it names nothing of the earlier one. */
const PATIENT: ReadonlySet<string> = new Set(["setMode", "flush", "lock", "wipe", "close", "inspect", "history", "sweep", "query"]);
/** What an end of the core does as well. */
const ENDINGS: ReadonlySet<string> = new Set(["lock", "close"]);

/**
 * The core of a session, in whatever instance of the wasm it lives. Where an instance dies of a bug, what waits for it
 * fails with `panicked`, and the core is opened again from what rests on the device.
 */
export class Living {
  /** The core: each of its methods, in the instance of the moment. */
  readonly core: Core;
  /** Forgotten with the session: it knows what the core was opened with. */
  #care: Care | undefined;
  /** How not to be told of the instance's death. */
  #stop: (() => void) | undefined;
  #opened: Opened | undefined;
  #recovery: Promise<void> | undefined;
  #lastDeath = -Infinity;
  #isOver = false;
  /** What the core has promised. */
  readonly #underWay = new Set<Promise<unknown>>();
  /** How to fail the calls that wait. */
  readonly #waiting = new Set<(error: EscaleError) => void>();

  constructor(opened: Opened, care: Care) {
    this.#care = care;
    this.isMortal = opened.onDeath === undefined;
    this.core = new Proxy({} as Core, {
      get: (_, name) =>
        typeof name === "string" && name !== "then" ? (...values: unknown[]) => this.#call(name, values) : undefined,
    });
    this.#live(opened);
  }

  /** Whether a death is the end: nobody would tell of it. */
  readonly isMortal: boolean;

  /** Whether there is a core that can be asked at once. */
  get isThere(): boolean {
    return this.#opened !== undefined && !this.#opened.isDead();
  }

  /** Whether there is a core, and nobody waits for it. */
  get isIdle(): boolean {
    return this.isThere && this.#underWay.size === 0 && !this.#isOver;
  }

  /** Another core takes the place of this one, which is idle, and is closed: what named things of it must be named anew. */
  swap(opened: Opened): void {
    const old = this.#opened;
    this.#stop?.();
    this.#live(opened);
    this.#care?.recovered();
    if (old) closeCore(old);
  }

  /** Settles once there is a core again, or none will be. */
  async settled(): Promise<void> {
    await this.#recovery;
  }

  /** The session is over: nothing is opened again. */
  end(): void {
    this.#isOver = true;
  }

  /**
   * The core has closed: what it holds is given back once nobody waits for it, and not when somebody collects it. A call
   * that is still under way holds it: wasm-bindgen throws where it is taken away.
   */
  free(): void {
    this.#isOver = true;
    const opened = this.#opened;
    this.#opened = this.#care = undefined;
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

  #call(name: string, values: unknown[]): unknown {
    const opened = this.#opened;
    if (!opened && this.#isOver && !this.#recovery) throw raise("closed", "the session is closed");
    if (!opened || opened.isDead()) {
      if (PATIENT.has(name)) return this.#late(name, values);
      throw raise("panicked", "the wasm stopped on a bug, and is being started again");
    }
    let result: unknown;
    try {
      result = (opened.core[name as keyof Core] as (...values: unknown[]) => unknown)(...values);
    } catch (error) {
      throw this.#sorted(opened, error);
    }
    return result instanceof Promise ? this.#wait(opened, name, result) : result;
  }

  /** A call that waited for another core. */
  async #late(name: string, values: unknown[]): Promise<unknown> {
    // Where nobody was told of the death yet, the recovery begins once somebody is.
    const { onDeath } = this.#opened ?? {};
    if (onDeath) await new Promise<void>((resolve) => onDeath(() => resolve()));
    await this.#recovery;
    if (this.#opened) return this.#call(name, values);
    if (ENDINGS.has(name)) return undefined;
    throw raise("panicked", "the wasm stopped on a bug, and could not be started again");
  }

  /** What a core promised, until it dies. */
  #wait(opened: Opened, name: string, result: Promise<unknown>): Promise<unknown> {
    this.#underWay.add(result);
    const over = (): boolean => this.#underWay.delete(result);
    result.then(over, over);
    if (!opened.onDeath) return result;
    return new Promise((resolve, reject) => {
      const fail = (error: EscaleError): void => {
        // What was to end has ended.
        if (ENDINGS.has(name)) resolve(undefined);
        else reject(error);
      };
      this.#waiting.add(fail);
      result
        .then(resolve, (error: unknown) => reject(toEscaleError(this.#sorted(opened, error))))
        .finally(() => this.#waiting.delete(fail));
    });
  }

  /** An error of the core as it is; what a dead one throws says nothing more. */
  #sorted(opened: Opened, error: unknown): unknown {
    return opened.isDead() ? raise("panicked", "the wasm stopped on a bug", error) : error;
  }

  #die(opened: Opened, { error, released }: Death): void {
    if (this.#opened === opened) this.#opened = undefined;
    opened.giveBack();
    const name = error instanceof Error ? error.message : "";
    const panicked = raise("panicked", `the wasm stopped on a bug (${name})`, error);
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#underWay.clear();
    const now = performance.now();
    const isAgain = now - this.#lastDeath < DEATHS_APART_MS;
    this.#lastDeath = now;
    if (this.#isOver || isAgain) {
      this.#recovery = undefined;
      for (const fail of waiting) fail(panicked);
      if (!this.#isOver) this.#care?.ended(panicked);
      return;
    }
    this.#recovery = this.#recover(released, panicked);
    for (const fail of waiting) fail(panicked);
  }

  async #recover(released: Promise<void>, panicked: EscaleError): Promise<void> {
    try {
      await released;
      if (!this.#care) return;
      const opened = await this.#care.reopen();
      if (!this.#care) {
        closeCore(opened);
        return;
      }
      this.#live(opened);
      if (this.#isOver) await opened.core.close();
      else this.#care.recovered();
    } catch (cause) {
      this.#opened = undefined;
      if (!this.#isOver) this.#care?.ended(raise("panicked", panicked.message, toEscaleError(cause)));
    } finally {
      this.#recovery = undefined;
    }
  }
}

