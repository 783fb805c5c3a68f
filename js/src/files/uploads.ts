/**
 * Uploads, by the session that leads: the bytes go before the reference (R24). The only state of an upload is which objects
 * the server has. So it may stop anywhere, and begin again.
 */

import type { EscaleError } from "../base/errors.js";
import type { FilesHost } from "../session/files.js";
import { isListed, lengthOf, listOf } from "./address.js";
import type { Catalogue, Entry } from "./catalogue.js";
import { fault, refusalOf, toFault } from "./faults.js";
import { inTurn, rounds, type Pauses } from "./pauses.js";
import type { Epoch, Remote } from "./remote.js";
import type { States } from "./states.js";

/** The errors for which the core parks the operations of a file. All others pass. */
const VERDICTS = "forbidden too_large not_supported quota_exceeded local_data_lost bad_value".split(" ");

interface Parts {
  readonly host: FilesHost;
  readonly catalogue: Catalogue;
  readonly remote: Remote;
  readonly states: States;
  readonly pauses: Pauses;
}

export class Uploads {
  readonly #parts: Parts;
  readonly #work: () => void;
  #needed = new Set<string>();
  /** The epoch in which the core heard of an object. If it asks again, the object is not there as the list that it is. */
  readonly #told = new Map<string, string>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#work = rounds(
      parts.pauses,
      () => this.#may,
      () => this.#round(),
      (code) => this.#wait(code),
    );
  }

  /** The core waits for a word on these. */
  needed(shas: readonly string[]): void {
    const before = [...this.#needed];
    this.#needed = new Set(shas);
    for (const sha of before) if (!this.has(sha)) this.#over(sha);
    this.go();
  }

  has(sha: string): boolean {
    return this.#needed.has(sha);
  }

  /** Goes on, if it may. */
  go(): void {
    if (!this.#may) this.#wait();
    this.#work();
  }

  /** Another session leads now. */
  pause(): void {
    for (const sha of this.#needed) this.#over(sha);
  }

  get #may(): boolean {
    const { host, remote } = this.#parts;
    return this.#needed.size > 0 && remote.isOpen && host.status.leads;
  }

  #wait(code?: string): void {
    if (this.#parts.host.status.leads) for (const sha of this.#needed) this.#parts.states.set(sha, { phase: "waiting", ...(code && { code }) });
  }

  /** Goes through all that is needed, once. */
  async #round(): Promise<void> {
    const { catalogue, remote } = this.#parts;
    const files: Entry[] = [];
    for (const sha of [...this.#needed]) {
      const entry = await catalogue.find(sha);
      if (entry) files.push(entry);
      else this.#settle([sha], "absent");
    }
    if (files.length === 0) return;
    let there = new Set<string>();
    await this.#guard(files, async () => {
      const answer = await remote.have(files.flatMap(({ key, chunks }) => [key, ...chunks]));
      ({ there } = answer);
      const told = String(answer.epoch);
      const isThere = ({ key }: Entry): boolean => there.has(key) && this.#told.get(key) !== told;
      this.#confirm(files.filter(isThere), answer.epoch);
    });
    await inTurn(files, (entry) => this.#guard([entry], () => this.#send(entry, there)));
  }

  /** A verdict ends these files; any other error ends the round. */
  async #guard(files: readonly Entry[], work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { code } = toFault(error);
      if (!VERDICTS.includes(code)) throw error;
      this.#settle(files.map(({ key }) => key), code);
    }
  }

  /** Sends the missing objects of a file, and has it confirmed. */
  async #send(entry: Entry, there: Set<string>): Promise<void> {
    const { catalogue, remote, states } = this.#parts;
    const { key, size, chunks } = entry;
    const isOver = (): boolean => !this.has(key) || !this.#may;
    const tell = (): void => {
      const sent = chunks.reduce((sum, digest, place) => sum + (there.has(digest) ? lengthOf(size, place) : 0), 0);
      states.set(key, { phase: "sending", sent });
    };
    const send = (digests: Iterable<string>): Promise<void> =>
      inTurn(digests, async (digest) => {
        if (isOver() || there.has(digest)) return;
        await remote.put(digest, async () => {
          const bytes = await catalogue.chunk(digest);
          if (!bytes) throw fault("local_data_lost", "the device lost the bytes");
          return bytes;
        });
        there.add(digest);
        if (!isOver()) tell();
      });
    if (isOver()) return;
    tell();
    await send(new Set(chunks));
    if (isListed(size) && !isOver()) {
      await remote.put(key, () => listOf(chunks), size).catch((error: unknown) => {
        const { files } = refusalOf(error as EscaleError);
        // The server had them when it was asked: the next round sends them.
        if (Array.isArray(files)) for (const digest of files as string[]) there.delete(digest);
        throw error;
      });
    }
    if (isOver()) return;
    const confirmed = await remote.have([key]);
    if (!confirmed.there.has(key)) throw fault("unavailable", "upload not confirmed");
    this.#confirm([entry], confirmed.epoch);
  }

  #confirm(files: readonly Entry[], epoch: Epoch): void {
    for (const { key } of files) this.#told.set(key, String(epoch));
    this.#settle(files.map(({ key }) => key), "there", epoch);
  }

  #settle(shas: readonly string[], verdict: string, epoch?: Epoch): void {
    const still = shas.filter((sha) => this.#needed.delete(sha));
    for (const sha of still) {
      if (VERDICTS.includes(verdict)) this.#parts.states.set(sha, { phase: "failed", code: verdict });
      else this.#over(sha);
    }
    if (still.length > 0) this.#parts.host.settle(still, verdict, epoch);
  }

  #over(sha: string): void {
    this.#parts.states.set(sha, null);
  }
}
