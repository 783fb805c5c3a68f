import type { Core, CoreOptions, Host } from "./core.js";
import { type EscaleError, raise, toEscaleError } from "./errors.js";
import type { ErrorCode } from "./error-codes.js";
import type { Living, Opened } from "./living.js";
import { storeOf } from "./options.js";
import type { Wasm } from "./wasm.js";

/** The wait before a device that refused to open is tried again; each is twice the one before. */
const FIRST_MS = 5_000;
const LONGEST_MS = 300_000;
/** How long a core on the device may take to hold what the one in memory does; then it is closed, and opened again later. */
const PATIENCE_MS = 30_000;

/** A device that cannot be opened, whatever is asked of it. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(["storage_closed", "storage_failed"]);
/** What else passes by itself. */
const PASSING: ReadonlySet<ErrorCode> = new Set([...REFUSALS, "storage_full", "store_in_use", "panicked"]);

/** What a session's side of the boundary does for its device. */
export interface DeviceHost extends Host {
  /** How to open, in the mode of the moment. */
  how(): CoreOptions;
  /** The device refuses for this reason, or does so no more: until then everything is in memory. */
  refuses(reason: EscaleError | undefined): void;
  /** An error that concerns no call. */
  fail(error: unknown): void;
}

/** A core on the device that is to take the place of the one in memory. */
interface Next {
  opened: Opened;
  relay: Relay;
  mode: string;
  since: number;
}

/**
 * Where the core of a session is. It is on the device; where that refuses to open, a session in `synced` begins in memory, and
 * tries the device again at growing delays. Once it opens, a second core on it loads what the first one holds. It takes its
 * place when it has, and nothing in memory waits for the server: nothing that was told to be saved is lost, and nothing that
 * is shown disappears.
 */
export class Device {
  readonly #wasm: Pick<Wasm, "take">;
  readonly #host: DeviceHost;
  #refusal: EscaleError | undefined;
  /** How the core in memory is heard. */
  #relay: Relay | undefined;
  #living: Living | undefined;
  #next: Next | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wait = FIRST_MS;
  #isOver = false;

  constructor(wasm: Pick<Wasm, "take">, host: DeviceHost) {
    this.#wasm = wasm;
    this.#host = host;
  }

  /** Fails with the reason where the device refuses. */
  check(): void {
    if (this.#refusal) throw this.#refusal;
  }

  /** Opens the core, on the device if it can be. */
  async open(): Promise<Opened> {
    try {
      return await opening(this.#wasm, this.#host.how(), this.#host);
    } catch (error) {
      const reason = toEscaleError(error);
      const isThere = typeof indexedDB !== "undefined";
      if (!isThere || this.#host.how().mode !== "synced" || !REFUSALS.has(reason.code)) throw reason;
      this.#refusal = reason;
      this.#host.refuses(reason);
      return this.reopen();
    }
  }

  /** Opens the core again, where it was. */
  reopen(): Promise<Opened> {
    if (!this.#refusal) return opening(this.#wasm, this.#host.how(), this.#host);
    this.#relay?.end();
    this.#relay = new Relay(this.#host, true, () => this.#look());
    return opening(this.#wasm, { ...this.#host.how(), inMemory: true }, this.#relay);
  }

  /** The core is at work: where it is in memory, the device is tried from now on. */
  watch(living: Living): void {
    this.#living = living;
    if (this.#refusal) this.#later();
  }

  /** Deletes what rests on a device that refused to open; the core has deleted it where there was one on it. */
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
      // In avion no store is made, and none comes as far.
      if (how.mode !== "synced") {
        this.#later();
        return;
      }
      const relay = new Relay(this.#host, false, () => this.#look());
      const opened = await opening(this.#wasm, how, relay);
      this.#next = { opened, relay, mode: how.mode, since: performance.now() };
      if (this.#isOver) this.#drop();
      else this.#subscribe(opened.core);
      this.#look();
    } catch (error) {
      this.#drop();
      if (this.#isOver) return;
      const reason = toEscaleError(error);
      // What stands on the device is not this session's to open: what it holds stays in memory.
      if (PASSING.has(reason.code)) this.#later();
      else this.#host.fail(reason);
    }
  }

  /** The core on the device follows what the one in memory does. */
  #subscribe(next: Core): void {
    const known = new Set(next.subscriptions());
    for (const def of this.#living?.core.subscriptions() ?? []) if (!known.has(def)) next.subscribe(def);
  }

  /** Something has changed in one of the two. Whoever tells of it is in the middle of something. */
  #look(): void {
    if (!this.#next || this.#isOver) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#change(), 0);
  }

  #change(): void {
    const { next, living } = { next: this.#next, living: this.#living };
    if (!next || !living || this.#isOver) return;
    try {
      if (!next.opened.isDead() && next.mode === this.#host.how().mode) {
        this.#subscribe(next.opened.core);
        if (living.isIdle && !hasOperations(living.core) && isAsFar(next.opened.core, living.core)) {
          this.#swap(next, living);
          return;
        }
        if (performance.now() - next.since < PATIENCE_MS) {
          // A call that is under way ends without a word.
          this.#timer = setTimeout(() => this.#change(), 200);
          return;
        }
      }
    } catch {
      // One of the two is dead, or closed: the device is tried again.
    }
    this.#drop();
    this.#later();
  }

  #swap({ opened, relay }: Next, living: Living): void {
    this.#next = this.#refusal = undefined;
    this.#relay?.end();
    this.#relay = undefined;
    this.#host.refuses(undefined);
    living.swap(opened);
    // What hears of it may call the session at once.
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

/** Opens a core; where its instance dies meanwhile, so does the opening. */
async function opening(wasm: Pick<Wasm, "take">, options: CoreOptions, host: Host): Promise<Opened> {
  const { glue, giveBack } = await wasm.take(options.mode === "incognito" ? Symbol(options.mode) : storeOf(options));
  const { onDeath, isDead = () => false } = glue;
  let stop: (() => void) | undefined;
  try {
    const core = await new Promise<Core>((resolve, reject) => {
      stop = onDeath?.(({ error }) => reject(raise("panicked", "the wasm stopped on a bug while opening", error)));
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

/** Gives back what a core holds, then its instance. */
export function freeCore({ core, giveBack }: Opened): void {
  (core as { free?(): void }).free?.();
  giveBack();
}

/** Closes a core that nobody waits for. */
export function closeCore(opened: Opened): void {
  const free = (): void => freeCore(opened);
  if (opened.isDead()) free();
  else opened.core.close().then(free, free);
}

function hasOperations(core: Core): boolean {
  return (JSON.parse(core.operations()) as unknown[]).length > 0;
}

/** Whether a core holds all that another one does, and no earlier state of it. */
function isAsFar(core: Core, other: Core): boolean {
  return other.subscriptions().every((def) => {
    const [here, there] = [core.list(def), other.list(def)];
    return here.v >= there.v && (here.ready || !there.ready);
  });
}

/** What a core tells, which the session hears only as long as that core is the session's. */
class Relay implements Host {
  readonly #host: Host;
  readonly #onNews: () => void;
  #isHeard: boolean;
  #isOver = false;
  /** The status as it was told last, and X. */
  #status: string | undefined;
  #derived: Uint8Array | undefined;

  constructor(host: Host, isHeard: boolean, onNews: () => void) {
    this.#host = host;
    this.#isHeard = isHeard;
    this.#onNews = onNews;
  }

  /** The session hears it from now on. */
  begin(): void {
    this.#isHeard = true;
    if (this.#derived) this.derived(this.#derived);
    this.#derived = undefined;
    if (this.#status !== undefined) this.#host.status(this.#status);
  }

  /** Nobody hears it any more. */
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
    // A store that is made after this one is gone may derive another.
    else this.#derived = x;
  }

  async token(refused: boolean): Promise<string | undefined> {
    return this.#isOver ? undefined : this.#host.token(refused);
  }

  #news(): void {
    if (!this.#isOver) this.#onNews();
  }
}
