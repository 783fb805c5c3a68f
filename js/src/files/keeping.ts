/**
 * Rules that keep files on the device, and their downloads by the session that leads. A rule follows the documents of its
 * match, and keeps the files that they reference now.
 */

import { random, toText } from "../base/binary.js";
import type { EscaleError } from "../base/errors.js";
import type { FileRef, FilesHost } from "../session/files.js";
import type { Stop } from "../views/view.js";
import { isRef } from "./address.js";
import type { Catalogue, Rule } from "./catalogue.js";
import { toFault } from "./faults.js";
import { Pauses, type Waker } from "./pauses.js";
import { AT_ONCE, type Reading } from "./reading.js";
import type { Remote } from "./remote.js";
import type { States } from "./states.js";
import type { Tabs } from "./tabs.js";
import type { Keep, KeptMatch } from "./types.js";

/** A rule that this session follows. */
interface Followed {
  readonly rule: Rule;
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
  readonly waker: Waker;
  /** Bytes may be a cache now. */
  onRelease(): void;
}

export class Keeping {
  readonly #parts: Parts;
  readonly #pauses: Pauses;
  readonly #rules = new Map<string, Rule>();
  readonly #followed = new Map<string, Followed>();
  /** Files that cannot be loaded, until the server can be reached again. */
  readonly #failed = new Set<string>();
  #writing: Promise<unknown> = Promise.resolve();
  #leads = false;
  #isRunning = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#pauses = new Pauses(parts.waker);
    this.reload();
  }

  keep(rule: Rule): Keep {
    const id = toText(random(16));
    this.#rules.set(id, rule);
    this.#write(id, rule);
    this.#follow();
    return this.#handle(id, rule);
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

  /** Whether all rules have said what they keep. */
  get isComplete(): boolean {
    return this.#leads && [...this.#followed.values()].every(({ wanted }) => wanted);
  }

  /** The files that rules keep. */
  wanted(): Map<string, FileRef> {
    return new Map([...this.#followed.values()].flatMap(({ wanted = [] }) => wanted.map((ref) => [ref.sha, ref] as const)));
  }

  /** The server can be reached: what it lacked before may be there now. */
  tryAgain(): void {
    this.#failed.clear();
    this.go();
  }

  /** Goes on with downloads, if it may. */
  go(): void {
    const isOpen = this.#leads && this.#parts.remote.isOpen;
    if (isOpen && !this.#isRunning) void this.#run();
    if (!isOpen && this.#leads) for (const { sha } of this.#left()) this.#parts.states.set(sha, { phase: "waiting" });
  }

  end(): void {
    this.#rules.clear();
    this.#leads = false;
    this.#follow();
  }

  #handle(id: string, rule: Rule): Keep {
    const release = (): void => {
      if (!this.#rules.delete(id)) return;
      this.#write(id, undefined);
      this.#follow();
      this.#parts.onRelease();
    };
    return Object.freeze({ id, what: rule.ref ?? (rule as KeptMatch), release });
  }

  #write(id: string, rule: Rule | undefined): void {
    const { catalogue, host, tabs } = this.#parts;
    const entry = rule && { key: id, size: 0, added: 0, read: 0, rule, chunks: [] };
    const write = (): Promise<unknown> => catalogue.save(id, () => entry, { isDurable: true }).then(() => tabs.post({ record: id }));
    this.#writing = this.#writing.then(write).catch((error: unknown) => host.fail(toFault(error)));
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
      const followed: Followed = { rule, wanted: rule.ref && [rule.ref], stop: () => {} };
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

  /** The files that are not here yet. */
  #left(): FileRef[] {
    const { catalogue } = this.#parts;
    return [...this.wanted().values()].filter(
      ({ sha, size }) => !this.#failed.has(sha) && (catalogue.here(sha) < size || !catalogue.entry(sha)),
    );
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    for (let left = this.#left(); left.length > 0 && this.#leads && this.#parts.remote.isOpen; left = this.#left()) {
      for (const { sha } of left) this.#parts.states.set(sha, { phase: "waiting" });
      try {
        await this.#load(left);
        this.#pauses.reset();
      } catch (error) {
        const { code } = error as EscaleError;
        for (const { sha } of this.#left()) this.#parts.states.set(sha, code === "storage_full" ? { phase: "full" } : { phase: "waiting", code });
        await this.#pauses.after(error as object);
      }
    }
    this.#isRunning = false;
  }

  /** Loads chunks of these files, a few at once. */
  async #load(files: readonly FileRef[]): Promise<void> {
    const { remote } = this.#parts;
    const steps = this.#steps(files);
    let failed: EscaleError | undefined;
    const one = async (): Promise<void> => {
      for await (const step of steps) {
        if (failed || !this.#leads || !remote.isOpen) return;
        try {
          await step();
        } catch (error) {
          failed ??= toFault(error);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    if (failed) throw failed;
  }

  /** The missing chunks, one after the other. All workers share it. */
  async *#steps(files: readonly FileRef[]): AsyncGenerator<() => Promise<void>> {
    const { catalogue, reading, states } = this.#parts;
    for (const ref of files) {
      const { sha } = ref;
      const guarded = (work: () => Promise<unknown>) => async (): Promise<void> => {
        if (this.#failed.has(sha) || !this.wanted().has(sha)) return;
        states.set(sha, { phase: "loading" });
        try {
          await work();
          if (catalogue.here(sha) >= ref.size) states.set(sha, undefined);
        } catch (error) {
          const { code, retryable } = toFault(error);
          if (retryable && code !== "file_damaged") throw error;
          this.#failed.add(sha);
          states.set(sha, { phase: "failed", code });
        }
      };
      let chunks: readonly string[] = [];
      let isKnown = false;
      await guarded(async () => {
        chunks = await reading.chunks(ref);
        isKnown = true;
      })();
      if (!isKnown) continue;
      const known = catalogue.entry(sha) ? catalogue.missing(sha) : chunks.map((_, place) => place);
      // The same chunk at two places is loaded once.
      const places = known.filter((place) => known.findIndex((other) => chunks[other] === chunks[place]) === known.indexOf(place));
      for (const place of places) yield guarded(() => reading.chunk(ref, chunks, place, true));
    }
  }
}
