/** The other tabs: they hear of changes, and no two transfer the same object at once. Without them each works alone. */

import { channelOf } from "../platform/channel.js";
import { locked } from "../platform/lock.js";

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
  const channel = name === undefined ? name : channelOf(name, (message) => hear(message as TabMessage));
  /** The files that this tab adds now. */
  let adding = 0;
  /** Runs it with a lock. Alone, at once. */
  const within = async <T>(lock: string, run: (lock: unknown) => T | Promise<T>, options: LockOptions = { signal }): Promise<T> =>
    name === undefined ? run(true) : locked(`${name}/${lock}`, options, run);
  return {
    post: (message) => {
      if (!signal.aborted) channel?.postMessage(message);
    },
    alone: within,
    async adding(run) {
      adding++;
      try {
        return await within("add", run, { mode: "shared", signal });
      } finally {
        adding--;
      }
    },
    async ifNoneAdds(run) {
      if (adding === 0) await within("add", (lock) => lock && run(), { ifAvailable: true });
    },
    end: () => channel?.close(),
  };
}
