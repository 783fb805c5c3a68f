/**
 * Decides where the core of a session works: on the device, or in memory while the device refuses to open. It opens
 * cores and swaps them; it knows nothing of documents.
 */

import type { Core, CoreOptions, CoreStatus, Host } from "./core.js";
import { type EscaleError, stopped, toEscaleError } from "../base/errors.js";
import type { ErrorCode } from "../base/error-codes.js";
import { closeCore, type Supervisor, type Opened } from "./supervisor.js";
import { storeOf, type Wasm } from "./wasm.js";

/** The wait before the first new attempt to open a device that refused. Each later wait is twice the one before. */
const FIRST_MS = 5_000;
const LONGEST_MS = 300_000;
/**
 * Time that a core on the device has to load everything that the core in memory holds. After that it is closed, and
 * another attempt follows later.
 */
const PATIENCE_MS = 30_000;

/** Errors that mean: this device cannot be opened, for any request. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(["storage_closed", "storage_failed"]);
/** Errors that pass by themselves: an attempt that fails with one of them is repeated. */
const PASSING: ReadonlySet<ErrorCode> = new Set([...REFUSALS, "storage_full", "store_in_use", "panicked"]);

/** The session's side of the boundary, with the additions that its device needs. */
export interface DeviceHost extends Host {
  /** The options to open the core with, in the session's current mode. */
  how(): CoreOptions;
  /**
   * The device refuses to open for this reason: until it opens, everything is in memory. Undefined: it refuses no more.
   */
  refuses(reason: EscaleError | undefined): void;
  /** Reports an error that belongs to no call. */
  fail(error: unknown): void;
}

/** A core on the device that will replace the core in memory. */
interface Next {
  opened: Opened;
  relay: Relay;
  mode: string;
  since: number;
}

/**
 * Decides where the core of a session works. Usually that is the device. If the device refuses to open, a session in
 * `synced` begins in memory, and retries the device at growing delays.
 *
 * Once the device opens, a second core on it loads everything that the core in memory holds. The second core replaces
 * the first as soon as it has loaded it all and no operation in memory waits for the server. So no operation reported
 * as saved is lost, and no document shown disappears.
 */
export class Device {
  readonly #wasm: Pick<Wasm, "take">;
  readonly #host: DeviceHost;
  #refusal: EscaleError | undefined;
  /** The relay through which the session hears the core in memory. */
  #relay: Relay | undefined;
  #supervisor: Supervisor | undefined;
  #next: Next | undefined;
  /** The defs unsubscribed while the core is in memory. The device may still be subscribed to them. */
  readonly #ended = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wait = FIRST_MS;
  #isOver = false;

  constructor(wasm: Pick<Wasm, "take">, host: DeviceHost) {
    this.#wasm = wasm;
    this.#host = host;
  }

  /** Throws the device's reason if it refuses to open. */
  check(): void {
    if (this.#refusal) throw this.#refusal;
  }

  /** The application has ended the subscription to a def. */
  unsubscribed(def: string): void {
    if (this.#refusal) this.#ended.add(def);
  }

  /** Opens the core, on the device if possible. */
  async open(): Promise<Opened> {
    try {
      return await opening(this.#wasm, this.#host.how(), this.#host);
    } catch (error) {
      const reason = toEscaleError(error);
      const hasIndexedDb = typeof indexedDB !== "undefined";
      if (!hasIndexedDb || this.#host.how().mode !== "synced" || !REFUSALS.has(reason.code)) throw reason;
      this.#refusal = reason;
      this.#host.refuses(reason);
      return this.reopen();
    }
  }

  /** Opens the core again, where it was before. */
  reopen(): Promise<Opened> {
    if (!this.#refusal) return opening(this.#wasm, this.#host.how(), this.#host);
    this.#relay?.end();
    this.#relay = new Relay(this.#host, true, () => this.#scheduleCheck());
    return opening(this.#wasm, { ...this.#host.how(), inMemory: true }, this.#relay);
  }

  /** The core is at work. If it is in memory, the device is retried from now on. */
  watch(supervisor: Supervisor): void {
    this.#supervisor = supervisor;
    if (this.#refusal) this.#later();
  }

  /**
   * Deletes the store of a device that refused to open. If the core was on the device, the core has deleted it already.
   */
  async wipe(): Promise<void> {
    if (!this.#refusal) return;
    const { org, account } = this.#host.how();
    const { glue, giveBack } = await this.#wasm.take(storeOf({ org, account }));
    await glue.wipe(org, account).finally(giveBack);
  }

  /** The session is over. */
  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#drop();
  }

  #later(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#try(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_MS);
  }

  async #try(): Promise<void> {
    try {
      const how = this.#host.how();
      // `avion` must not create a store. Without a server, a new store could never catch up either.
      if (how.mode !== "synced") {
        this.#later();
        return;
      }
      const relay = new Relay(this.#host, false, () => this.#scheduleCheck());
      const opened = await opening(this.#wasm, how, relay);
      this.#next = { opened, relay, mode: how.mode, since: performance.now() };
      if (this.#isOver) this.#drop();
      else this.#subscribe(opened.core);
      this.#scheduleCheck();
    } catch (error) {
      this.#drop();
      if (this.#isOver) return;
      const reason = toEscaleError(error);
      // This session cannot open the store on the device (for example, it has another passphrase). Its data stays in
      // memory.
      if (PASSING.has(reason.code)) this.#later();
      else this.#host.fail(reason);
    }
  }

  /** Subscribes the core on the device to everything that the core in memory is subscribed to. */
  #subscribe(next: Core): void {
    const known = new Set(next.subscriptions());
    const core = this.#supervisor?.core;
    for (const def of core?.subscriptions() ?? []) if (!known.has(def)) next.subscribe(def, core?.list(def).lease ?? 0);
  }

  /**
   * Something changed in one of the two cores. The check is deferred, because the core that reports it is in the middle
   * of a call.
   */
  #scheduleCheck(): void {
    if (!this.#next || this.#isOver) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#change(), 0);
  }

  #change(): void {
    const next = this.#next;
    const supervisor = this.#supervisor;
    if (!next || !supervisor || this.#isOver) return;
    try {
      if (!next.opened.isDead() && next.mode === this.#host.how().mode) {
        this.#subscribe(next.opened.core);
        // A local document is nowhere else, as long as it exists.
        const isFree = supervisor.isIdle && !hasOperations(supervisor.core) && !this.#relay?.drafts;
        if (isFree && isAsFar(next.opened.core, supervisor.core)) {
          this.#swap(next, supervisor);
          return;
        }
        if (performance.now() - next.since < PATIENCE_MS) {
          // A call that is in progress ends without any notification.
          this.#timer = setTimeout(() => this.#change(), 200);
          return;
        }
      }
    } catch {
      // One of the two cores is dead or closed: the device is retried later.
    }
    this.#drop();
    this.#later();
  }

  #swap({ opened, relay }: Next, supervisor: Supervisor): void {
    const kept = supervisor.core.subscriptions();
    for (const def of this.#ended) if (!kept.includes(def)) opened.core.unsubscribe(def);
    this.#next = this.#refusal = undefined;
    this.#relay?.end();
    this.#relay = undefined;
    this.#host.refuses(undefined);
    supervisor.swap(opened);
    // The listeners may call the session at once, so this comes last.
    relay.begin();
  }

  #drop(): void {
    const next = this.#next;
    this.#next = undefined;
    if (!next) return;
    next.relay.end();
    closeCore(next.opened);
  }
}

/** Opens a core. If its instance of the wasm dies meanwhile, the opening fails. */
async function opening(wasm: Pick<Wasm, "take">, options: CoreOptions, host: Host): Promise<Opened> {
  const { glue, giveBack } = await wasm.take(options.mode === "incognito" ? Symbol(options.mode) : storeOf(options));
  const { onDeath, isDead = () => false } = glue;
  let stop: (() => void) | undefined;
  try {
    const core = await new Promise<Core>((resolve, reject) => {
      stop = onDeath?.(({ error }) => reject(stopped(error, " while opening")));
      glue.open(options, host).then(resolve, reject);
    });
    return { core, onDeath, isDead, giveBack };
  } catch (error) {
    giveBack();
    throw error;
  } finally {
    stop?.();
  }
}

function hasOperations(core: Core): boolean {
  return (JSON.parse(core.operations()) as unknown[]).length > 0;
}

/** Whether `core` holds everything that `other` holds, in no earlier state. */
function isAsFar(core: Core, other: Core): boolean {
  return other.subscriptions().every((def) => {
    const [here, there] = [core.list(def), other.list(def)];
    return here.v >= there.v && (here.ready || !there.ready);
  });
}

/** Forwards the calls of one core to the session, but only while that core is the session's current one. */
class Relay implements Host {
  readonly #host: Host;
  readonly #onNews: () => void;
  #isHeard: boolean;
  #isOver = false;
  /** The last status of this core; and X, if it derived one. */
  #status: string | undefined;
  #derived: Uint8Array | undefined;

  constructor(host: Host, isHeard: boolean, onNews: () => void) {
    this.#host = host;
    this.#isHeard = isHeard;
    this.#onNews = onNews;
  }

  /** From now on the session hears this core. */
  begin(): void {
    this.#isHeard = true;
    if (this.#derived) this.derived(this.#derived);
    this.#derived = undefined;
    if (this.#status !== undefined) this.#host.status(this.#status);
  }

  /** The local documents of this core. */
  get drafts(): number {
    return (JSON.parse(this.#status ?? "{}") as Partial<CoreStatus>).drafts ?? 0;
  }

  /** From now on nobody hears this core. */
  end(): void {
    this.#isHeard = false;
    this.#isOver = true;
    this.#derived?.fill(0);
    this.#derived = undefined;
  }

  changed(defs: string[], gone: Uint32Array): void {
    if (this.#isHeard) this.#host.changed(defs, gone);
    this.#news();
  }

  status(json: string): void {
    this.#status = json;
    if (this.#isHeard) this.#host.status(json);
    this.#news();
  }

  operation(json: string): void {
    if (this.#isHeard) this.#host.operation(json);
    this.#news();
  }

  optimistic(name: string, args: string, known: string): string | undefined {
    return this.#host.optimistic?.(name, args, known);
  }

  settle(className: string, base: string, mine: string, theirs: string): string | undefined {
    return this.#host.settle?.(className, base, mine, theirs);
  }

  derived(x: Uint8Array): void {
    if (this.#isOver) x.fill(0);
    else if (this.#isHeard) this.#host.derived?.(x);
    // Kept until the swap, not forwarded: if the store is deleted and made again, a later core may derive another X.
    else this.#derived = x;
  }

  async token(refused: boolean): Promise<string | undefined> {
    return this.#isOver ? undefined : this.#host.token(refused);
  }

  #news(): void {
    if (!this.#isOver) this.#onNews();
  }
}
