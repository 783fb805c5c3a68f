/** The states of files: transfers of this tab, transfers of the session that leads, and the bytes that are here. */

import { internal } from "../index.js";
import type { Catalogue } from "./catalogue.js";
import { fault } from "./faults.js";
import type { FileRef } from "../session/files.js";
import type { Stop } from "../views/view.js";
import type { FileState } from "./types.js";

/** The work of the session that leads on a file. */
export interface Doing {
  readonly phase: "waiting" | "loading" | "sending" | "full" | "failed";
  readonly sent?: number;
  readonly code?: string | undefined;
}

interface Listener {
  readonly ref: FileRef;
  readonly callback: (state: FileState) => unknown;
  state: FileState;
}

export interface States {
  /** A transfer of the session that leads. Null: it is over. */
  set(sha: string, doing: Doing | null, isOwn?: boolean): void;
  /** All transfers. */
  all(): [string, Doing][];
  /** Another session leads: it tells its transfers itself. */
  forget(): void;
  of(ref: FileRef): FileState;
  subscribe(ref: FileRef, callback: (state: FileState) => unknown): Stop;
  /** The state of a file may be another one. */
  changed(sha: string): void;
  end(): void;
}

export function statesOf(catalogue: Catalogue, tell: (sha: string, doing: Doing | null) => void): States {
  const transfers = new Map<string, Doing>();
  const listeners = new Map<string, Set<Listener>>();
  const of = ({ sha, size }: FileRef): FileState => {
    const here = catalogue.here(sha);
    const { phase, sent, code } = transfers.get(sha) ?? ({} as Partial<Doing>);
    const isHere = catalogue.entry(sha) && here >= size;
    return Object.freeze({
      phase: phase ?? (isHere ? "here" : "none"),
      here,
      of: size,
      ...(sent !== undefined && { sent }),
      ...(code && { error: fault(code, sha) }),
    });
  };
  const changed = (sha: string): void => {
    for (const listener of [...(listeners.get(sha) ?? [])]) {
      const state = of(listener.ref);
      if (textOf(state) === textOf(listener.state)) continue;
      listener.state = state;
      internal.callSafely(listener.callback, state);
    }
  };
  const set = (sha: string, doing: Doing | null, isOwn = true): void => {
    if (doing) transfers.set(sha, doing);
    else if (!transfers.delete(sha)) return;
    if (isOwn) tell(sha, doing);
    changed(sha);
  };
  return {
    set,
    all: () => [...transfers],
    forget() {
      for (const sha of [...transfers.keys()]) set(sha, null, false);
    },
    of,
    subscribe(ref, callback) {
      const { sha } = ref;
      const those = listeners.get(sha) ?? new Set();
      const listener = { ref, callback, state: of(ref) };
      listeners.set(sha, those.add(listener));
      internal.callSafely(callback, listener.state);
      return () => {
        those.delete(listener);
        if (those.size === 0 && listeners.get(sha) === those) listeners.delete(sha);
      };
    },
    changed,
    end() {
      listeners.clear();
      transfers.clear();
    },
  };
}

const textOf = ({ error, ...state }: FileState): string => JSON.stringify([state, error?.code]);
