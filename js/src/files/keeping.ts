/**
 * Rules that keep files on the device, and their downloads by the session that leads. A rule follows the documents of its
 * match, and keeps the files that they reference now.
 */

import { random, toText } from "../base/binary.js";
import type { FileRef, FilesHost } from "../session/files.js";
import type { Stop } from "../views/view.js";
import { isRef } from "./address.js";
import type { Catalogue, Rule } from "./catalogue.js";
import { toFault } from "./faults.js";
import { inTurn, rounds, type Pauses } from "./pauses.js";
import type { Reading } from "./reading.js";
import type { Remote } from "./remote.js";
import type { States } from "./states.js";
import type { Tabs } from "./tabs.js";
import type { Keep, KeptMatch } from "./types.js";

/** A rule that this session follows. */
interface Followed {
  /** The files that it keeps. Undefined until the documents are known. */
  wanted: readonly FileRef[] | undefined;
  stop: Stop;
}

interface Parts {
  readonly host: FilesHost;
  readonly catalogue: Catalogue;
  readonly remote: Remote;
  readonly reading: Reading;
  readonly states: States;
  readonly tabs: Tabs;
  readonly pauses: Pauses;
  /** Bytes may be a cache now. */
  trim(): void;
}

export class Keeping {
  readonly #parts: Parts;
  readonly #work: () => void;
  readonly #rules = new Map<string, Rule>();
  readonly #followed = new Map<string, Followed>();
  /** Files that cannot be loaded, until the server can be reached again. */
  readonly #failed = new Set<string>();
  #writing: Promise<void> = Promise.resolve();
  #leads = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#work = rounds(
      parts.pauses,
      () => this.#isOpen && this.#left().length > 0,
      () => inTurn(this.#left(), (ref) => this.#load(ref)),
      (code) => this.#wait(code),
    );
    this.reload();
  }

  keep(rule: Rule): Keep {
    const id = toText(random(16));
    this.#rules.set(id, rule);
    const saved = this.#write(id, rule);
    this.#follow();
    return this.#handle(id, rule, saved);
  }

  keeps(): readonly Keep[] {
    return Object.freeze([...this.#rules].map(([id, rule]) => this.#handle(id, rule)));
  }

  /** Takes the rules as the device has them: another tab may have changed them. */
  reload(): void {
    this.#rules.clear();
    for (const { key, rule } of this.#parts.catalogue.entries()) if (rule) this.#rules.set(key, rule);
    this.#follow();
  }

  /** Whether this session leads from now on. */
  lead(leads: boolean): void {
    this.#leads = leads;
    this.#follow();
  }

  /** Whether the files of all rules are known. */
  get isComplete(): boolean {
    return this.#leads && [...this.#followed.values()].every(({ wanted }) => wanted);
  }

  /** The files that rules keep. */
  wanted(): Map<string, FileRef> {
    return new Map([...this.#followed.values()].flatMap(({ wanted = [] }) => wanted.map((ref) => [ref.sha, ref] as const)));
  }

  /** The server can be reached: files that it lacked may be there now. */
  tryAgain(): void {
    this.#failed.clear();
    this.go();
  }

  /** Goes on with downloads, if it may. */
  go(): void {
    if (!this.#isOpen) this.#wait();
    this.#work();
  }

  end(): void {
    this.#rules.clear();
    this.#leads = false;
    this.#follow();
  }

  #handle(id: string, rule: Rule, saved = Promise.resolve()): Keep {
    const release = (): void => {
      if (!this.#rules.delete(id)) return;
      void this.#write(id, undefined);
      this.#follow();
      this.#parts.trim();
    };
    return Object.freeze({ id, what: rule as FileRef | KeptMatch, saved, release });
  }

  #write(id: string, rule: Rule | undefined): Promise<void> {
    const { catalogue, host, tabs } = this.#parts;
    const entry = rule && { key: id, size: 0, added: 0, read: 0, rule, chunks: [] };
    const written = this.#writing
      .then(() => catalogue.save(id, () => entry, { isDurable: true }))
      .then(() => tabs.post({ record: id }))
      .catch((error: unknown) => {
        const failed = toFault(error);
        host.fail(failed);
        throw failed;
      });
    this.#writing = written.catch(() => {});
    return written;
  }

  /** Follows exactly the rules that there are, if this session leads. */
  #follow(): void {
    for (const [id, { stop }] of [...this.#followed]) {
      if (this.#leads && this.#rules.has(id)) continue;
      this.#followed.delete(id);
      stop();
    }
    for (const [id, rule] of this.#leads ? this.#rules : []) {
      if (this.#followed.has(id)) continue;
      const followed: Followed = { wanted: isRef(rule) ? [rule] : undefined, stop: () => {} };
      this.#followed.set(id, followed);
      if (rule.class === undefined) continue;
      try {
        followed.stop = this.#parts.host.follow(rule.class, rule.match ?? {}, (documents) => {
          if (this.#followed.get(id) !== followed) return;
          followed.wanted = this.#filesOf(rule, documents);
          this.go();
        });
      } catch {
        // The schema has no such class any more: the rule keeps nothing.
        followed.wanted = [];
      }
    }
    this.go();
  }

  /** The files of documents that a rule keeps. */
  #filesOf({ class: name = "", properties, max = Infinity }: Rule, documents: readonly Record<string, unknown>[]): FileRef[] {
    const named = properties ?? this.#parts.host.fileProperties(name);
    const values = documents.flatMap((document) => named.flatMap((property) => document[property]));
    return values.filter(isRef).filter(({ size }) => size <= max);
  }

  get #isOpen(): boolean {
    return this.#leads && this.#parts.remote.isOpen;
  }

  #wait(code?: string): void {
    const phase = code === "storage_full" ? "full" : "waiting";
    if (this.#leads) for (const { sha } of this.#left()) this.#parts.states.set(sha, { phase, ...(code && { code }) });
  }

  /** The files that are not here yet. */
  #left(): FileRef[] {
    const { catalogue } = this.#parts;
    return [...this.wanted().values()].filter(
      ({ sha, size }) => !this.#failed.has(sha) && (catalogue.here(sha) < size || !catalogue.entry(sha)),
    );
  }

  /** Loads the missing chunks of a file. An error that cannot pass ends it. */
  async #load(ref: FileRef): Promise<void> {
    const { catalogue, reading, states } = this.#parts;
    const { sha } = ref;
    try {
      states.set(sha, { phase: "loading" });
      const chunks = await reading.chunks(ref);
      const places = catalogue.entry(sha) ? catalogue.missing(sha) : [0];
      await inTurn(places, async (place) => {
        if (this.#isOpen && this.wanted().has(sha)) await reading.chunk(ref, chunks, place, true);
      });
      states.set(sha, null);
    } catch (error) {
      const { code, retryable } = toFault(error);
      if (retryable && code !== "file_damaged") throw error;
      this.#failed.add(sha);
      states.set(sha, { phase: "failed", code });
    }
  }
}
