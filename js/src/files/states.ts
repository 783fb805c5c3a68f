/** The states of files: transfers of this tab, transfers of the session that leads, and the bytes that are here. */

import type { Catalogue } from "./catalogue.js";
import { fault } from "./faults.js";
import type { FileRef } from "../session/files.js";
import type { Stop } from "../views/view.js";
import type { FileState } from "./types.js";
import { callSafely } from "../base/report.js";

/** The work of the session that leads on a file. */
export interface Doing {
  readonly phase: "waiting" | "loading" | "sending" | "full" | "failed";
  readonly sent?: number;
  readonly code?: string;
}

interface Listener {
  readonly ref: FileRef;
  readonly callback: (state: FileState) => unknown;
  state: FileState;
}

export class States {
  readonly #catalogue: Catalogue;
  readonly #tell: (sha: string, doing: Doing | null) => void;
  readonly #doing = new Map<string, Doing>();
  readonly #listeners = new Map<string, Set<Listener>>();

  constructor(catalogue: Catalogue, tell: (sha: string, doing: Doing | null) => void) {
    this.#catalogue = catalogue;
    this.#tell = tell;
  }

  /** A transfer of the session that leads. Null: it is over. */
  set(sha: string, doing: Doing | null, isOwn = true): void {
    if (doing) this.#doing.set(sha, doing);
    else if (!this.#doing.delete(sha)) return;
    if (isOwn) this.#tell(sha, doing);
    this.changed(sha);
  }

  /** All transfers. */
  all(): [string, Doing][] {
    return [...this.#doing];
  }

  /** Another session leads: it tells its transfers itself. */
  forget(): void {
    for (const [sha] of this.all()) this.set(sha, null, false);
  }

  of({ sha, size }: FileRef): FileState {
    const here = this.#catalogue.here(sha);
    const doing = this.#doing.get(sha);
    const known = this.#catalogue.entry(sha);
    const isHere = known !== undefined && here >= size;
    const code = doing ? doing.code : isHere ? undefined : known?.error;
    return Object.freeze({
      phase: doing?.phase ?? (code ? "failed" : isHere ? "here" : "none"),
      here,
      of: size,
      ...(doing?.sent !== undefined && { sent: doing.sent }),
      ...(code && { error: fault(code, sha) }),
    });
  }

  subscribe(ref: FileRef, callback: (state: FileState) => unknown): Stop {
    const listeners = this.#listeners.get(ref.sha) ?? new Set();
    this.#listeners.set(ref.sha, listeners);
    const listener = { ref, callback, state: this.of(ref) };
    listeners.add(listener);
    callSafely(callback, listener.state);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(ref.sha) === listeners) this.#listeners.delete(ref.sha);
    };
  }

  /** The state of a file may be another one. */
  changed(sha: string): void {
    for (const listener of [...(this.#listeners.get(sha) ?? [])]) {
      const state = this.of(listener.ref);
      if (textOf(state) === textOf(listener.state)) continue;
      listener.state = state;
      callSafely(listener.callback, state);
    }
  }

  end(): void {
    this.#listeners.clear();
    this.#doing.clear();
  }
}

const textOf = ({ error, ...state }: FileState): string => JSON.stringify([state, error?.code]);
