/**
 * Uploads, by the session that leads: the bytes go before the reference (R24). The only state of an upload is which objects
 * the server has. So it may stop anywhere, and begin again.
 */

import type { Bytes } from "../base/binary.js";
import type { EscaleError } from "../base/errors.js";
import type { FilesHost } from "../session/files.js";
import { isListed, lengthOf, listOf } from "./address.js";
import type { Catalogue, Entry } from "./catalogue.js";
import { fault, refusalOf, toFault } from "./faults.js";
import { Pauses, type Waker } from "./pauses.js";
import { AT_ONCE } from "./reading.js";
import type { Epoch, Remote } from "./remote.js";
import type { States } from "./states.js";
import type { Tabs } from "./tabs.js";

/** The errors for which the core parks the operations of a file. All others pass. */
const VERDICTS: readonly string[] = ["forbidden", "too_large", "not_supported", "quota_exceeded", "local_data_lost", "bad_value"];

/** The objects that are sent before the server is asked to confirm them. */
const GROUP = 32;

interface Parts {
  readonly host: FilesHost;
  readonly catalogue: Catalogue;
  readonly remote: Remote;
  readonly states: States;
  readonly tabs: Tabs;
  readonly waker: Waker;
}

export class Uploads {
  readonly #parts: Parts;
  readonly #pauses: Pauses;
  #needed = new Set<string>();
  /** The epoch in which the core heard of an object. If it asks again, the object is not there as the list that it is. */
  readonly #told = new Map<string, string>();
  #isRunning = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#pauses = new Pauses(parts.waker);
  }

  /** The core waits for a word on these. */
  needed(shas: readonly string[]): void {
    for (const sha of this.#needed) if (!shas.includes(sha)) this.#over(sha);
    this.#needed = new Set(shas);
    this.go();
  }

  has(sha: string): boolean {
    return this.#needed.has(sha);
  }

  /** Goes on, if it may. */
  go(): void {
    for (const sha of this.#needed) if (!this.#isRunning) this.#parts.states.set(sha, { phase: "waiting" });
    if (!this.#isRunning && this.#may) void this.#run();
  }

  /** Another session leads now. */
  pause(): void {
    for (const sha of this.#needed) this.#over(sha);
  }

  get #may(): boolean {
    const { host, remote } = this.#parts;
    return this.#needed.size > 0 && remote.isOpen && host.status.leads;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#may) {
      try {
        await this.#round();
        this.#pauses.reset();
      } catch (error) {
        for (const sha of this.#needed) this.#parts.states.set(sha, { phase: "waiting", code: (error as EscaleError).code });
        await this.#pauses.after(error as object);
      }
    }
    this.#isRunning = false;
  }

  /** Goes through all that is needed, once. */
  async #round(): Promise<void> {
    const { catalogue, remote } = this.#parts;
    const shas = [...this.#needed];
    const found = await Promise.all(shas.map((sha) => catalogue.find(sha)));
    const files = found.filter((entry) => entry !== undefined);
    this.#settle(shas.filter((_, at) => !found[at]), "absent");
    if (files.length === 0) return;
    const { there, epoch } = await remote.have([...new Set(files.flatMap(({ key, chunks }) => [...chunks, key]))]).catch((error: unknown) => {
      const { code } = error as EscaleError;
      if (VERDICTS.includes(code)) this.#settle(files.map(({ key }) => key), code);
      throw error;
    });
    const told = String(epoch);
    const isThere = ({ key }: Entry): boolean => there.has(key) && this.#told.get(key) !== told;
    this.#confirm(files.filter(isThere), epoch);
    const left = files.filter((entry) => !isThere(entry));
    while (left.length > 0 && this.#may) {
      const group: Entry[] = [];
      let objects = 0;
      do {
        const next = left.shift() as Entry;
        group.push(next);
        objects += next.chunks.length;
      } while (left[0] && objects + left[0].chunks.length <= GROUP);
      await this.#send(group, there);
    }
  }

  /** Sends the missing objects of some files, and has them confirmed. */
  async #send(files: readonly Entry[], there: Set<string>): Promise<void> {
    const over = new Set<Entry>();
    let failed: EscaleError | undefined;
    /** One step for a file. A verdict ends this file, any other error the whole group. */
    const step = (entry: Entry, work: () => Promise<void>) => async (): Promise<void> => {
      if (over.has(entry) || failed || !this.#needed.has(entry.key) || !this.#may) return;
      try {
        await work();
      } catch (error) {
        const { code } = error as EscaleError;
        if (!VERDICTS.includes(code)) failed ??= toFault(error);
        else {
          over.add(entry);
          this.#settle([entry.key], code);
        }
      }
    };
    const chunk = (entry: Entry, digest: string) => step(entry, () => this.#chunk(entry, digest, there));
    for (const entry of files) this.#tell(entry, there);
    await inTurn(files.flatMap((entry) => [...new Set(entry.chunks)].filter((digest) => !there.has(digest)).map((digest) => chunk(entry, digest))));
    await inTurn(files.filter(({ size }) => isListed(size)).map((entry) => step(entry, () => this.#list(entry, there))));
    if (failed) throw failed;
    const sent = files.filter((entry) => !over.has(entry) && this.#needed.has(entry.key));
    if (sent.length === 0 || !this.#may) return;
    const confirmed = await this.#parts.remote.have(sent.map(({ key }) => key));
    this.#confirm(sent.filter(({ key }) => confirmed.there.has(key)), confirmed.epoch);
    if (confirmed.there.size < sent.length) throw fault("unavailable", "the server does not confirm an upload");
  }

  async #chunk(entry: Entry, digest: string, there: Set<string>): Promise<void> {
    const bytes = await this.#parts.catalogue.chunk(digest);
    if (!bytes) throw fault("local_data_lost", "the device has lost bytes of a file that nobody else has");
    await this.#put(digest, bytes);
    there.add(digest);
    this.#tell(entry, there);
  }

  /** Sends the list. The server may miss chunks that it had: these are sent first. */
  async #list(entry: Entry, there: Set<string>): Promise<void> {
    try {
      await this.#put(entry.key, listOf(entry.chunks), entry.size);
    } catch (error) {
      if ((error as EscaleError).code !== "file_missing") throw error;
      const { files } = refusalOf(error as EscaleError);
      const missing = new Set(entry.chunks.filter((digest) => Array.isArray(files) && files.includes(digest)));
      for (const digest of missing) await this.#chunk(entry, digest, there);
      // There may be more of them than one answer names.
      throw missing.size > 0 ? fault("contention", "the server had lost chunks") : error;
    }
  }

  #put(sha: string, bytes: Bytes, size?: number): Promise<void> {
    return this.#parts.tabs.alone(`put/${sha}`, () => this.#parts.remote.put(sha, bytes, size));
  }

  #tell(entry: Entry, there: ReadonlySet<string>): void {
    const sent = entry.chunks.reduce((sum, digest, place) => sum + (there.has(digest) ? lengthOf(entry.size, place) : 0), 0);
    this.#parts.states.set(entry.key, { phase: "sending", sent });
  }

  #confirm(files: readonly Entry[], epoch: Epoch): void {
    for (const { key } of files) this.#told.set(key, String(epoch));
    this.#settle(files.map(({ key }) => key), "there", epoch);
  }

  #settle(shas: readonly string[], verdict: string, epoch?: Epoch): void {
    const still = shas.filter((sha) => this.#needed.delete(sha));
    if (still.length === 0) return;
    for (const sha of still) {
      if (VERDICTS.includes(verdict)) this.#parts.states.set(sha, { phase: "failed", code: verdict });
      else this.#over(sha);
    }
    this.#parts.host.settle(still, verdict, epoch);
  }

  #over(sha: string): void {
    this.#parts.states.set(sha, undefined);
  }
}

/** Does all of it, a few at once. */
async function inTurn(steps: (() => Promise<void>)[]): Promise<void> {
  const one = async (): Promise<void> => {
    for (let step = steps.shift(); step; step = steps.shift()) await step();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}
