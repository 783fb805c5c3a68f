/** The other tabs: they hear of changes, and no two transfer the same object at once. Without them each works alone. */

/** A message between tabs. Names are keyed, and nothing of it is stored. */
export interface TabMessage {
  /** Chunks that were stored, and chunks that are gone. */
  readonly put?: readonly string[];
  readonly gone?: readonly string[];
  /** The record of a file or a rule was changed. */
  readonly record?: string | undefined;
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
export interface Tabs {
  post(message: TabMessage): void;
  /** Runs it while no other tab has this lock. */
  alone<T>(lock: string, run: () => Promise<T>): Promise<T>;
  /** Adds a file: meanwhile no tab removes chunks that no record names. */
  adding<T>(run: () => Promise<T>): Promise<T>;
  /** Runs it if no tab adds a file. */
  ifNoneAdds(run: () => Promise<unknown>): Promise<void>;
  end(): void;
}

export function tabsOf(name: string | undefined, signal: AbortSignal, hear: (message: TabMessage) => void): Tabs {
  const isAlone = name === undefined;
  const channel = isAlone || typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(name);
  if (channel) {
    channel.onmessage = ({ data }) => hear(data as TabMessage);
    // In Node a channel would keep the process alive.
    (channel as { unref?: () => void }).unref?.();
  }
  /** The files that this tab adds now. */
  let adding = 0;
  /** Runs it with a lock, which is null if it is not available. Without locks, at once. */
  const locked = async <T>(lock: string, run: (lock: unknown) => T | Promise<T>, options: LockOptions = { signal }): Promise<T> => {
    const { navigator } = globalThis as { navigator?: { locks?: LockManager } };
    const locks = isAlone ? undefined : navigator?.locks;
    return locks ? locks.request(`${name}/${lock}`, options, run) : run(true);
  };
  return {
    post: (message) => {
      if (!signal.aborted) channel?.postMessage(message);
    },
    alone: locked,
    async adding(run) {
      adding++;
      try {
        return await locked("add", run, { mode: "shared", signal });
      } finally {
        adding--;
      }
    },
    async ifNoneAdds(run) {
      if (adding === 0) await locked("add", (lock) => lock && run(), { ifAvailable: true });
    },
    end: () => channel?.close(),
  };
}
