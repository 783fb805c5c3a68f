/** The status of a session: the values that the core reports, with the errors of this side. */

import type { Adapter, CoreStatus, Ending, Role } from "../wasm/core.js";
import { EscaleError, raise, toEscaleError, type CoreError } from "../base/errors.js";
import { callSafely } from "../base/report.js";
import { checkCallback } from "../schema/query.js";
import type { Stop } from "../views/view.js";

/** How a session uses the server and the device. */
export type Mode = CoreStatus["mode"];

/** The current activity of a session. */
export type Phase = CoreStatus["phase"];

/** The status of a session at one point in time. */
export interface StatusValue {
  readonly mode: Mode;
  readonly phase: Phase;
  /** Why the session is over; null as long as it is open. */
  readonly reason: Ending | null;
  /**
   * How this session learns of changes. `pushed`: by a socket or the adapter's `listen`. `polled`: by a pull every 30
   * seconds (`pollEveryMs`), while there is neither or it is closed. Null if the session does not talk to a server
   * itself.
   */
  readonly updates: CoreStatus["updates"];
  /**
   * Whether this tab's session talks to the server, on behalf of all tabs that have the store open. The other tabs are
   * just as live, and can write as well.
   */
  readonly leads: boolean;
  /** Operations not yet accepted by the server. */
  readonly pending: number;
  /** Documents of local classes: this device alone has them. */
  readonly drafts: number;
  /** Progress of the first loads, while they run: documents received, and the total if the server gave it. */
  readonly progress: { readonly received: number; readonly total: number | null } | null;
  readonly storage: CoreStatus["storage"];
  /** Found damaged on the device and not fetched again yet. For operations: how many may be lost for good. */
  readonly damaged: { readonly documents: number; readonly collections: number; readonly operations: number };
  /** The last error that belongs to no call. */
  readonly error: EscaleError | null;
  /**
   * Subscriptions that are refused, each with its reason: by the server, because there are too many, or because no rule of
   * the scope leads there. Each stays until it is resolved, or until nobody wants it (R94).
   */
  readonly faults: { readonly [def: string]: EscaleError };
  /**
   * How far the server restricts the account, as of its last reply. 0: not. 1: it takes no writes. 2: it gives no
   * documents either. The classes that the schema exempts are not concerned.
   */
  readonly restriction: number;
  /**
   * The role of the account, as of the server's last reply: `read`, `write` or `admin`. Null before the first reply, and if
   * the server knows no accounts.
   */
  readonly role: Role | null;
}

/** The status of a session: its current fields, and their changes. */
export interface Status extends StatusValue {
  /** All fields at one point in time: the same frozen object until something changes. */
  readonly value: StatusValue;
  /** Calls back with the status at once, then at every change. */
  subscribe(callback: (status: StatusValue) => unknown): Stop;
}

/** Each field of the value is a field of the status. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging, @typescript-eslint/no-empty-object-type -- the constructor defines them
export interface LiveStatus extends StatusValue {}

/** The status that a session keeps: the core's reports, and the errors of this side. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging -- as above
export class LiveStatus implements Status {
  readonly #callbacks = new Set<{ call: (status: StatusValue) => unknown }>();
  #value: StatusValue;
  /** The error of the core's last report as JSON, to distinguish a new error from a repeated one. */
  #coreError = "null";
  /** The defs that the server refuses, and those that this side does. */
  #byServer: StatusValue["faults"] = {};
  #here: StatusValue["faults"] = {};
  /** The phase that the core reported last, and why the application's token function fails. */
  #phase: Phase = "opening";
  #paused: EscaleError | undefined;
  /** The error with which the application's adapter failed last. */
  #adapterError: unknown;

  constructor(mode: Mode) {
    this.#value = Object.freeze({
      mode,
      phase: "opening",
      reason: null,
      updates: null,
      leads: false,
      pending: 0,
      drafts: 0,
      progress: null,
      storage: "none",
      damaged: Object.freeze({ documents: 0, collections: 0, operations: 0 }),
      error: null,
      faults: Object.freeze({}),
      restriction: 0,
      role: null,
    });
    for (const name of Object.keys(this.#value) as (keyof StatusValue)[]) {
      Object.defineProperty(this, name, { get: () => this.#value[name] });
    }
  }

  get value(): StatusValue {
    return this.#value;
  }

  subscribe(callback: (status: StatusValue) => unknown): Stop {
    checkCallback("status.subscribe", callback);
    const entry = { call: callback };
    this.#callbacks.add(entry);
    callSafely(callback, this.#value);
    return () => {
      this.#callbacks.delete(entry);
    };
  }

  /** Takes a report of the core. */
  update(status: CoreStatus): void {
    const told = JSON.stringify(status.error);
    const isNews = told !== this.#coreError;
    // The author of the server reads the console, not the page's view of the status.
    // eslint-disable-next-line no-console -- it is a warning, not an error of the page
    if (isNews && status.error?.code === "bad_reply") console.warn(`escale: bad_reply: ${status.error.message}`);
    this.#coreError = told;
    this.#phase = status.phase;
    this.#byServer = Object.fromEntries(Object.entries(status.faults).map(([def, fault]) => [def, new EscaleError(fault)]));
    this.#set({
      mode: status.mode,
      phase: this.#now(),
      updates: status.updates,
      leads: status.leads,
      pending: status.pending,
      drafts: status.drafts,
      progress: status.progress && Object.freeze(status.progress),
      storage: status.storage,
      damaged: Object.freeze(status.damaged),
      error: isNews ? status.error && this.#errorOf(status.error) : this.#value.error,
      faults: this.#faults(),
      restriction: status.restriction,
      role: status.role ?? null,
    });
  }

  /** The adapter, whose errors become the causes of the core's: the core must not repeat their messages. */
  watched(adapter: Adapter): Adapter {
    const sync = async (request: object): ReturnType<Adapter["sync"]> => {
      try {
        this.#adapterError = undefined;
        return await adapter.sync(request);
      } catch (error) {
        this.#adapterError = error;
        throw error;
      }
    };
    return { sync, ...(adapter.listen && { listen: adapter.listen.bind(adapter) }) };
  }

  /** The core's messages name the adapter if it failed. */
  #errorOf(error: CoreError): EscaleError {
    return toEscaleError(error, error.message.includes("adapter") ? this.#adapterError : undefined);
  }

  /** The defs that the server refuses, each with its reason. */
  get refusedByServer(): StatusValue["faults"] {
    return this.#byServer;
  }

  /** These defs are refused on this side, and no others. */
  refuse(faults: StatusValue["faults"]): void {
    this.#here = faults;
    this.#set({ faults: this.#faults() });
  }

  #faults(): StatusValue["faults"] {
    return Object.freeze({ ...this.#byServer, ...this.#here });
  }

  /** The core waits for a token, and does not know why none comes. */
  #now(): Phase {
    return this.#paused && this.#phase === "opening" ? "paused" : this.#phase;
  }

  /** The application's token function fails for this reason, or does no more. */
  pause(error?: EscaleError): void {
    if (!error && !this.#paused) return;
    this.#paused = error;
    this.#set({ phase: this.#now(), error: error ?? this.#value.error });
  }

  /** Records an error of this side that belongs to no call. */
  fail(error: unknown): void {
    this.#set({ error: toEscaleError(error) });
  }

  /** The error of a call after the end. */
  over(): EscaleError {
    return raise("closed", `the session is ${this.#value.reason ?? "closed"}`);
  }

  /** The session is over, even if the core still reports. */
  close(by: Ending): void {
    if (this.#value.phase === "closed") return;
    this.#set({ phase: (this.#phase = "closed"), reason: by, updates: null, leads: false, progress: null });
  }

  #set(changed: Partial<StatusValue>): void {
    this.#value = Object.freeze({ ...this.#value, ...changed });
    for (const entry of [...this.#callbacks]) {
      if (this.#callbacks.has(entry)) callSafely(entry.call, this.#value);
    }
  }
}
