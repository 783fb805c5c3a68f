/** The connection of one session to the server in memory: an adapter, and the faults that a test orders for it. */

import type { Adapter } from "../wasm/core.js";
import type { Server, SyncRequest } from "./server.js";

/** One session's connection. */
export class Line {
  readonly adapter: Adapter;
  /** Whether the session's page has ended, by a kill or by `close`. */
  isOver = false;
  isCut = false;
  readonly #server: Server;
  readonly #heard: () => void;
  readonly #gates = new Set<Promise<void>>();
  #lost = 0;
  #defs: readonly string[] = [];
  #on: ((frame: object) => void) | undefined;
  /** By def: how many changes the server had had when its last complete answer was made. */
  readonly #answered = new Map<string, number>();

  constructor(server: Server, heard: () => void) {
    this.#server = server;
    this.#heard = heard;
    server.listeners.add((defs) => this.#hint([...defs]));
    this.adapter = {
      sync: (request) => this.#sync(request as SyncRequest),
      listen: (defs, on) => {
        [this.#defs, this.#on] = [defs, on];
        return () => {
          if (this.#on === on) this.#on = undefined;
        };
      },
    };
  }

  /** Whether the session has had the server's last change of these defs. */
  isCurrent(defs: readonly string[]): boolean {
    return defs.every((def) => (this.#answered.get(def) ?? -1) >= this.#server.lastChange(def).at);
  }

  /** Cuts the connection. The session notices at its next request, which a hint brings about. */
  cut(): void {
    this.#hint(this.#defs.map((def) => [def, this.#server.highest]));
    this.isCut = true;
  }

  /** Mends it. Changes that the session has missed are hinted. */
  mend(): void {
    this.isCut = false;
    this.#hint(this.#defs.filter((def) => !this.isCurrent([def])).map((def) => [def, this.#server.lastChange(def).v]));
  }

  /** The answer of the next request is lost: the server has carried it out. */
  loseAnswer(): void {
    this.#lost += 1;
  }

  /** Holds every request from now on, until the function that it returns is called. */
  hold(): () => void {
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    this.#gates.add(gate);
    return () => {
      this.#gates.delete(gate);
      open();
    };
  }

  #hint(hints: [def: string, v: number][]): void {
    const wanted = hints.filter(([def]) => this.#defs.includes(def));
    if (this.isCut || this.isOver || !this.#on || wanted.length === 0) return;
    const on = this.#on;
    // Not within the caller's own work.
    queueMicrotask(() => {
      if (this.#on === on) on({ hints: wanted });
    });
  }

  async #sync(request: SyncRequest): Promise<string> {
    while (this.#gates.size > 0) await Promise.all(this.#gates);
    try {
      if (this.isCut || this.isOver) throw new Error("the test has cut the network");
      const { text, whole } = this.#server.sync(request);
      if (this.#lost > 0) {
        this.#lost -= 1;
        throw new Error("the test has lost the answer");
      }
      for (const def of whole) this.#answered.set(def, this.#server.changes);
      return text;
    } finally {
      this.#heard();
    }
  }
}
