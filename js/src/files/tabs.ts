/** The other tabs: they hear of changes, and no two transfer the same object at once. Without them each works alone. */

/** A message between tabs. Names are keyed, and nothing of it is stored. */
export interface TabMessage {
  /** Chunks that were stored, and chunks that are gone. */
  readonly put?: readonly string[];
  readonly gone?: readonly string[];
  /** The record of a file or a rule was changed. */
  readonly record?: string;
  /** Transfers of the session that leads, by file. Null: it ended. */
  readonly doing?: readonly (readonly [sha: string, doing: object | null])[];
  /** Another session leads now: all transfers known before are over. */
  readonly isNew?: boolean;
  /** A tab opened, and asks for the transfers. */
  readonly hello?: boolean;
  /** The device is full: the session that leads makes room, and says so. */
  readonly room?: "wanted" | "made";
}

/** The channel and the locks of one database. */
export class Tabs {
  readonly #name: string | undefined;
  readonly #channel: BroadcastChannel | undefined;
  readonly #signal: AbortSignal;
  /** The files that this tab adds now. */
  #adding = 0;

  constructor(name: string | undefined, signal: AbortSignal, hear: (message: TabMessage) => void) {
    this.#name = name;
    this.#signal = signal;
    if (name === undefined || typeof BroadcastChannel === "undefined") return;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => hear(data as TabMessage);
    // In Node a channel would keep the process alive.
    (this.#channel as { unref?: () => void }).unref?.();
  }

  post(message: TabMessage): void {
    if (!this.#signal.aborted) this.#channel?.postMessage(message);
  }

  /** Runs it while no other tab has this lock. */
  async alone<T>(what: string, run: () => Promise<T>, mode: LockMode = "exclusive"): Promise<T> {
    const locks = this.#locks;
    return locks ? locks.request(`${this.#name}/${what}`, { mode, signal: this.#signal }, run) : run();
  }

  /** Adds a file: meanwhile no tab removes chunks that no record names. */
  async adding<T>(run: () => Promise<T>): Promise<T> {
    this.#adding += 1;
    try {
      return await this.alone("add", run, "shared");
    } finally {
      this.#adding -= 1;
    }
  }

  /** Runs it if no tab adds a file. */
  async ifNoneAdds(run: () => Promise<void>): Promise<void> {
    if (this.#adding > 0) return;
    const locks = this.#locks;
    if (!locks) return run();
    await locks.request(`${this.#name}/add`, { ifAvailable: true }, async (lock) => {
      if (lock) await run();
    });
  }

  end(): void {
    this.#channel?.close();
  }

  get #locks(): LockManager | undefined {
    const { navigator } = globalThis as { navigator?: { locks?: LockManager } };
    return this.#name === undefined ? undefined : navigator?.locks;
  }
}
