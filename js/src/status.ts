import type { CoreStatus } from "./core.js";
import { EscaleError, raise, toEscaleError } from "./errors.js";
import { callSafely } from "./report.js";
import type { Stop } from "./view.js";

/** How a session meets the server and the device. */
export type Mode = CoreStatus["mode"];

/** What the session is doing. */
export type Phase = CoreStatus["phase"];

/** How a session is at one moment. */
export interface StatusValue {
  readonly mode: Mode;
  readonly phase: Phase;
  /**
   * How this session hears of changes: `pushed`, by a socket or the adapter's `listen`, or `polled`, by a pull every 30
   * seconds (`pollEveryMs`), where there is no such thing or it is closed. Null where the session asks no server itself.
   */
  readonly updates: CoreStatus["updates"];
  /**
   * Whether this tab's session talks to the server, for all tabs that have the store open. Nothing else depends on it: the
   * others are as live, and write as well.
   */
  readonly leads: boolean;
  /** Operations not yet accepted by the server. */
  readonly pending: number;
  /** Of the running first load: documents received, and how many there are where the server said it. */
  readonly progress: { readonly received: number; readonly total: number | null } | null;
  readonly storage: CoreStatus["storage"];
  /** Found damaged on the device and not fetched again yet; of operations, how many may be lost for good. */
  readonly damaged: { readonly documents: number; readonly collections: number; readonly operations: number };
  /** The last error that concerns no call. */
  readonly error: EscaleError | null;
  /** Defs that the server refused, each with why. */
  readonly faults: { readonly [def: string]: EscaleError };
}

/** The status of a session: its fields now, and every change of them. */
export interface Status extends StatusValue {
  /** All fields at one moment: the same frozen object until something changes. */
  readonly value: StatusValue;
  /** Calls back with the status at once, then at every change. */
  subscribe(callback: (status: StatusValue) => unknown): Stop;
}

/** The status that a session keeps: what the core tells, and the errors of this side. */
export class LiveStatus implements Status {
  readonly #callbacks = new Set<{ call: (status: StatusValue) => unknown }>();
  #value: StatusValue;
  /** As the core told it last, to know a new error from one that it merely repeats. */
  #coreError = "null";

  constructor(mode: Mode) {
    this.#value = Object.freeze({
      mode,
      phase: "opening",
      updates: null,
      leads: false,
      pending: 0,
      progress: null,
      storage: "none",
      damaged: Object.freeze({ documents: 0, collections: 0, operations: 0 }),
      error: null,
      faults: Object.freeze({}),
    });
  }

  get value(): StatusValue {
    return this.#value;
  }
  get mode(): Mode {
    return this.#value.mode;
  }
  get phase(): Phase {
    return this.#value.phase;
  }
  get updates(): StatusValue["updates"] {
    return this.#value.updates;
  }
  get leads(): boolean {
    return this.#value.leads;
  }
  get pending(): number {
    return this.#value.pending;
  }
  get progress(): StatusValue["progress"] {
    return this.#value.progress;
  }
  get storage(): StatusValue["storage"] {
    return this.#value.storage;
  }
  get damaged(): StatusValue["damaged"] {
    return this.#value.damaged;
  }
  get error(): EscaleError | null {
    return this.#value.error;
  }
  get faults(): StatusValue["faults"] {
    return this.#value.faults;
  }

  subscribe(callback: (status: StatusValue) => unknown): Stop {
    if (typeof callback !== "function") throw raise("bad_option", "status.subscribe takes a function");
    const entry = { call: callback };
    this.#callbacks.add(entry);
    callSafely(callback, this.#value);
    return () => {
      this.#callbacks.delete(entry);
    };
  }

  /** Takes what the core tells. */
  update(status: CoreStatus): void {
    const told = JSON.stringify(status.error);
    const isNews = told !== this.#coreError;
    // The server's author looks here, not at what the page makes of its status.
    // eslint-disable-next-line no-console -- it is a warning, not an error of the page
    if (isNews && status.error?.code === "bad_reply") console.warn(`escale: bad_reply: ${status.error.message}`);
    this.#coreError = told;
    const faults = Object.entries(status.faults).map(([def, fault]) => [def, new EscaleError(fault)] as const);
    this.#set({
      mode: status.mode,
      phase: status.phase,
      updates: status.updates,
      leads: status.leads,
      pending: status.pending,
      progress: status.progress && Object.freeze(status.progress),
      storage: status.storage,
      damaged: Object.freeze(status.damaged),
      error: isNews ? status.error && new EscaleError(status.error) : this.#value.error,
      faults: Object.freeze(Object.fromEntries(faults)),
    });
  }

  /** An error of this side that concerns no call. */
  fail(error: unknown): void {
    this.#set({ ...this.#value, error: toEscaleError(error) });
  }

  /** The session is over, whatever the core still says. */
  close(): void {
    if (this.#value.phase === "closed") return;
    this.#set({ ...this.#value, phase: "closed", updates: null, leads: false, progress: null });
  }

  #set(value: StatusValue): void {
    this.#value = Object.freeze(value);
    for (const entry of [...this.#callbacks]) {
      if (this.#callbacks.has(entry)) callSafely(entry.call, this.#value);
    }
  }
}
