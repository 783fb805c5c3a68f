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

export interface Uploads {
  /** The core waits for a word on these. */
  needed(shas: readonly string[]): void;
  has(sha: string): boolean;
  /** Goes on, if it may. */
  go(): void;
  /** Another session leads now. */
  pause(): void;
}

export function uploadsOf(parts: Parts): Uploads {
  const { host, catalogue, remote, states } = parts;
  let needed = new Set<string>();
  /** The epoch in which the core heard of an object. If it asks again, the object is not there as the list that it is. */
  const told = new Map<string, string>();

  const has = (sha: string): boolean => needed.has(sha);
  const over = (sha: string): void => states.set(sha, null);
  const left = (): { sha: string }[] => (host.status.leads ? [...needed].map((sha) => ({ sha })) : []);

  const settle = (files: readonly { key: string }[], verdict: string, epoch?: Epoch): void => {
    const shas = files.map(({ key }) => key);
    if (epoch) for (const sha of shas) told.set(sha, String(epoch));
    const still = shas.filter((sha) => needed.delete(sha));
    for (const sha of still) {
      if (VERDICTS.includes(verdict)) states.set(sha, { phase: "failed", code: verdict });
      else over(sha);
    }
    if (still.length > 0) host.settle(still, verdict, epoch);
  };

  /** A verdict ends these files; any other error ends the round. */
  const guard = async (files: readonly Entry[], work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      const { code } = toFault(error);
      if (!VERDICTS.includes(code)) throw error;
      // Nobody added it on this device, so nothing is lost: it was read from the server, which decides.
      for (const file of files) settle([file], code === "local_data_lost" && !file.added ? "absent" : code);
    }
  };

  /** Sends the missing objects of a file, and has it confirmed. */
  const send = async (entry: Entry, there: Set<string>): Promise<void> => {
    const { key, size, chunks } = entry;
    const isOver = (): boolean => !has(key) || !remote.isOpen() || !host.status.leads;
    const tell = (): void => {
      const sent = chunks.reduce((sum, digest, place) => sum + (there.has(digest) ? lengthOf(size, place) : 0), 0);
      if (!isOver()) states.set(key, { phase: "sending", sent });
    };
    tell();
    await inTurn(new Set(chunks), async (digest) => {
      if (isOver() || there.has(digest)) return;
      await remote.put(digest, async () => {
        const bytes = await catalogue.chunk(digest);
        if (!bytes) throw fault("local_data_lost", "the device lost the bytes");
        return bytes;
      });
      there.add(digest);
      tell();
    });
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
    settle([entry], "there", confirmed.epoch);
  };

  /** Goes through all that is needed, once. */
  const go = rounds(parts, left, async () => {
    const files: Entry[] = [];
    for (const sha of [...needed]) {
      const entry = await catalogue.find(sha);
      if (entry && (entry.added || catalogue.missing(sha).length === 0)) files.push(entry);
      else settle([{ key: sha }], "absent");
    }
    if (files.length === 0) return;
    let there = new Set<string>();
    await guard(files, async () => {
      const answer = await remote.have(files.flatMap(({ key, chunks }) => [key, ...chunks]));
      ({ there } = answer);
      const epoch = String(answer.epoch);
      settle(files.filter(({ key }) => there.has(key) && told.get(key) !== epoch), "there", answer.epoch);
    });
    await inTurn(files, (entry) => guard([entry], () => send(entry, there)));
  });

  return {
    needed(shas) {
      const before = [...needed];
      needed = new Set(shas);
      for (const sha of before) if (!has(sha)) over(sha);
      go();
    },
    has,
    go,
    pause() {
      for (const sha of needed) over(sha);
    },
  };
}
