/** Records a session at work: its status, its operations and its requests. A session has one recorder. */

import type { OperationNews } from "../wasm/core.js";
import type { Session } from "../session/session.js";
import type { StatusValue } from "../session/status.js";
import type { PendingOperation, RefusedOperation } from "../writes/operation-types.js";
import { watchNetwork, type NetworkEntry } from "./network.js";

/** More entries than a person reads. The oldest ones go first. */
const ENTRIES_MAX = 300;

/** The fate of an operation. `left`: it is no longer listed, and no news of its end came: it was discarded, for example. */
export type Fate = PendingOperation["state"] | "accepted" | "refused" | "failed" | "amended" | "left";

/** An operation, and its fate so far. */
export interface OperationEntry {
  readonly id: string;
  readonly name: string;
  readonly className: string | null;
  readonly at: number;
  readonly fate: Fate;
  readonly code: string | null;
  /** Milliseconds from its issue until it was saved, and until it ended, by this device's clock. */
  readonly savedAfter: number | null;
  readonly endedAfter: number | null;
}

/** A change of the status. */
export interface StatusEntry {
  readonly at: number;
  readonly phase: StatusValue["phase"];
  readonly mode: StatusValue["mode"];
  readonly updates: StatusValue["updates"];
  readonly storage: StatusValue["storage"];
  readonly leads: boolean;
  readonly code: string | null;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the panel takes a session of any schema
export type AnySession = Session<any, any>;

const recorders = new WeakMap<AnySession, Recorder>();

/** The recorder of a session. It records as long as somebody uses it. */
export function recorderOf(session: AnySession): Recorder {
  const known = recorders.get(session) ?? new Recorder(session);
  recorders.set(session, known);
  return known;
}

/** Records a session while it has users. */
export class Recorder {
  readonly network: NetworkEntry[] = [];
  readonly history: StatusEntry[] = [];
  readonly #session: AnySession;
  readonly #operations = new Map<string, OperationEntry>();
  readonly #users = new Set<() => void>();
  #stops: (() => void)[] = [];
  #isScheduled = false;

  constructor(session: AnySession) {
    this.#session = session;
  }

  /** Every known operation, the newest first. */
  get operations(): OperationEntry[] {
    return [...this.#operations.values()].sort((a, b) => b.at - a.at);
  }

  /** Calls back after changes, once for a burst. Returns a function that ends it. */
  use(changed: () => void): () => void {
    const user = (): void => changed();
    this.#users.add(user);
    if (this.#users.size === 1) this.#start();
    return () => {
      if (!this.#users.delete(user) || this.#users.size > 0) return;
      for (const stop of this.#stops.splice(0)) stop();
    };
  }

  #start(): void {
    const session = this.#session;
    // The browser still remembers its requests, and gives them again.
    this.network.length = 0;
    session.onNews = (news) => this.#heard(news);
    this.#stops = [
      () => (session.onNews = undefined),
      watchNetwork((entry) => this.#add(this.network, entry)),
      session.status.subscribe((status) => this.#turned(status)),
      session.refused.subscribe(() => this.#listed()),
    ];
  }

  #turned({ phase, mode, updates, storage, leads, error }: StatusValue): void {
    const entry = { phase, mode, updates, storage, leads, code: error?.code ?? null };
    const last = this.history.at(-1);
    const isNews = !last || JSON.stringify({ ...last, at: 0 }) !== JSON.stringify({ ...entry, at: 0 });
    if (isNews) this.#add(this.history, { at: Date.now(), ...entry });
    this.#listed();
  }

  #heard(news: OperationNews): void {
    // A new operation may have its first news before it is listed here.
    this.#list();
    const known = this.#operations.get(news.id);
    if (!known) return;
    const after = Math.max(0, Date.now() - known.at);
    const code = "error" in news ? news.error.code : null;
    const saved = news.kind === "saved" ? after : known.savedAfter;
    const ended = news.kind === "saved" || news.kind === "refused" ? null : after;
    this.#operations.set(news.id, { ...known, fate: news.kind, code, savedAfter: saved, endedAfter: ended });
    this.#tell();
  }

  #listed(): void {
    this.#list();
    this.#tell();
  }

  #list(): void {
    let listed: (PendingOperation | RefusedOperation)[];
    try {
      listed = [...this.#session.pending(), ...this.#session.refused.value];
    } catch {
      // A session that has ended, or that recovers, lists nothing.
      return;
    }
    const ids = new Set(listed.map(({ id }) => id));
    for (const [id, known] of this.#operations) {
      const isOpen = known.endedAfter === null && known.fate !== "left";
      if (isOpen && !ids.has(id)) this.#operations.set(id, { ...known, fate: "left" });
    }
    for (const operation of listed) {
      const { id, name, args, at } = operation;
      const isRefused = "error" in operation;
      const before = this.#operations.get(id);
      this.#operations.set(id, {
        id,
        name,
        className: typeof args["class"] === "string" ? args["class"] : null,
        at,
        fate: isRefused ? "refused" : operation.state,
        code: isRefused ? operation.error.code : null,
        savedAfter: before?.savedAfter ?? null,
        endedAfter: null,
      });
    }
    for (const [id, { endedAfter, fate }] of this.#operations) {
      if (this.#operations.size <= ENTRIES_MAX) break;
      if (endedAfter !== null || fate === "left") this.#operations.delete(id);
    }
  }

  #add<T>(list: T[], entry: T): void {
    list.push(entry);
    if (list.length > ENTRIES_MAX) list.shift();
    this.#tell();
  }

  #tell(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(() => {
      this.#isScheduled = false;
      for (const user of [...this.#users]) user();
    }, 100);
  }
}
