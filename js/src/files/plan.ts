/**
 * The decisions of files: those to send, to keep and to remove, and their order (R24, R26, R28). Events go in, and effects
 * come out, which the caller carries out in their order. There is no database, no network and no clock in here. Of the
 * device it sees the memory of the catalogue, and the time is a part of an event.
 */

import type { FileRef } from "../session/files.js";
import { isListed, isRef, lengthOf } from "./address.js";
import type { Catalogue, Entry, Known, Rule } from "./catalogue.js";
import type { Epoch } from "./remote.js";
import type { Doing } from "./states.js";

/** The errors for which the core parks the operations of a file. All others pass. */
const VERDICTS = "forbidden too_large not_supported quota_exceeded local_data_lost bad_value".split(" ");

/** The bytes that nothing keeps. A larger file is no part of it. */
export const CACHE_MAX = 64 << 20;

/** The files that are removed in one transaction: each looks at the names of all records. */
const TOGETHER = 100;

/** How long a file stays that the application has added. */
const ADDED_MS = 24 * 3_600_000;

/** The effects, each with its arguments. */
export interface Effects {
  /** The transfer of a file is in this state. Null: it is over. */
  state(sha: string, doing: Doing | null): void;
  /** The core has this word on files. */
  settle(shas: readonly string[], verdict: string, epoch?: Epoch): void;
  /** The server says which of these objects of these files it has. */
  ask(files: readonly Entry[], shas: readonly string[]): Promise<void>;
  /** These are sent, a few at once. */
  send(files: readonly Entry[]): Promise<void>;
  /** A chunk of a file is stored on the server. */
  put(file: Entry, digest: string): Promise<void>;
  /** The list of a file is stored on the server. */
  list(file: Entry): Promise<void>;
  /** The server says whether it has a file. */
  confirm(file: Entry): Promise<void>;
}

/** An effect, and its arguments. */
export type Effect = { readonly [E in keyof Effects]: readonly [E, ...Parameters<Effects[E]>] }[keyof Effects];

/** The device, as it is at an event. */
export type Device = Pick<Catalogue, "entry" | "files" | "here" | "missing" | "isHeld">;

/** Why the device keeps a file. */
export type Reason = "pending" | "local" | "kept" | "cached";

/** The decisions of a session. Each method is an event, or a question. */
export type Plan = ReturnType<typeof planOf>;

/** Begins with nothing to do. `isFree` says, at an event, whether the session leads and the server may be asked. */
export function planOf(device: Device, isFree: () => boolean) {
  /** The core waits for a word on these. */
  let needed = new Set<string>();
  /** The epoch in which the core heard of an object. If it asks again, the object is not there as the list that it is. */
  const told = new Map<string, string>();
  /** The objects that the server has, in this round. */
  let there = new Set<string>();
  /** The files of each rule that this session follows. Undefined until its documents are known. */
  const rules = new Map<string, readonly FileRef[] | undefined>();
  /** Files that cannot be loaded, until the server can be reached again. */
  const failed = new Set<string>();

  const isDue = ({ key }: Entry): boolean => needed.has(key) && isFree();

  const over = (shas: Iterable<string>): Effect[] => Array.from(shas, (sha) => ["state", sha, null]);

  const settle = (shas: readonly string[], verdict: string, epoch?: Epoch): Effect[] => {
    if (epoch) for (const sha of shas) told.set(sha, String(epoch));
    const still = shas.filter((sha) => needed.delete(sha));
    if (still.length === 0) return [];
    const doing: Doing | null = VERDICTS.includes(verdict) ? { phase: "failed", code: verdict } : null;
    return [...still.map((sha): Effect => ["state", sha, doing]), ["settle", still, verdict, epoch]];
  };

  const sending = (file: Entry): Effect[] => {
    const { key, size, chunks } = file;
    const sent = chunks.reduce((sum, digest, place) => sum + (there.has(digest) ? lengthOf(size, place) : 0), 0);
    return isDue(file) ? [["state", key, { phase: "sending", sent }]] : [];
  };

  const wanted = (): Map<string, FileRef> => new Map([...rules.values()].flatMap((refs = []) => refs.map((ref) => [ref.sha, ref] as const)));

  return {
    /** The core waits for a word on these, and on no others. */
    need(shas: readonly string[]): Effect[] {
      const before = [...needed];
      needed = new Set(shas);
      return over(before.filter((sha) => !needed.has(sha)));
    },
    needed: (): string[] => [...needed],
    /** Another session leads. */
    pause: (): Effect[] => over(needed),
    /** A round begins: the device has these entries of the files that are needed. */
    found(entries: readonly (readonly [sha: string, entry: Entry | undefined])[]): Effect[] {
      const files: Entry[] = [];
      const effects = entries.flatMap(([sha, entry]) => {
        if (!entry || (!entry.added && device.missing(sha).length > 0)) return settle([sha], "absent");
        files.push(entry);
        return [];
      });
      return files.length > 0 ? [...effects, ["ask", files, files.flatMap(({ key, chunks }) => [key, ...chunks])]] : effects;
    },
    /** The server has some of the objects of these files. */
    answered(files: readonly Entry[], objects: Set<string>, epoch: Epoch): Effect[] {
      there = objects;
      const shas = files.map(({ key }) => key).filter((sha) => there.has(sha) && told.get(sha) !== String(epoch));
      const words = settle(shas, "there", epoch);
      // One that the core needs again, now that it has its word, is for the next round.
      return [...words, ["send", files.filter(({ key }) => needed.has(key))]];
    },
    /** The turn of a file begins. */
    sending,
    /** It is the turn of a chunk of a file. */
    turn: (file: Entry, digest: string): Effect[] => (isDue(file) && !there.has(digest) ? [["put", file, digest]] : []),
    /** The server has stored a chunk of a file. */
    stored(file: Entry, digest: string): Effect[] {
      there.add(digest);
      return sending(file);
    },
    /**
     * All chunks of a file had their turn, and perhaps its list. If the core needs it again after some turns were over, it is
     * for the next round.
     */
    sent: (file: Entry, isWhole = !isListed(file.size)): Effect[] =>
      isDue(file) && file.chunks.every((digest) => there.has(digest)) ? [[isWhole ? "confirm" : "list", file]] : [],
    /** The server lacks objects that it had when it was asked: the next round sends them. */
    lack(digests: readonly string[]): void {
      for (const digest of digests) there.delete(digest);
    },
    /** The server has confirmed a file. */
    confirmed: ({ key }: Entry, epoch: Epoch): Effect[] => settle([key], "there", epoch),
    /** Files could not be sent. Undefined if the error passes. */
    refused: (files: readonly Entry[], code: string): Effect[] | undefined =>
      VERDICTS.includes(code)
        ? // Nobody added it on this device, so nothing is lost: it was read from the server, which decides.
          files.flatMap(({ key, added }) => settle([key], code === "local_data_lost" && !added ? "absent" : code))
        : undefined,

    /** This session follows a rule. */
    follow: (id: string, rule: Rule): unknown => rules.set(id, isRef(rule) ? [rule] : undefined),
    /** A rule has these documents, which reference its files in some properties. */
    match(id: string, { max = Infinity }: Rule, documents: readonly Record<string, unknown>[], properties: readonly string[]): void {
      const values = documents.flatMap((document) => properties.flatMap((property) => document[property]));
      rules.set(id, values.filter(isRef).filter(({ size }) => size <= max));
    },
    /** This session follows a rule no more. */
    release: (id: string): unknown => rules.delete(id),
    /** Whether the files of all rules are known. */
    isComplete: (): boolean => [...rules.values()].every((refs) => refs),
    /** The files that rules keep, in the order of the rules. */
    wanted,
    /** The files that are to be loaded, in this order. */
    toLoad: (): FileRef[] => [...wanted().values()].filter(({ sha, size }) => !failed.has(sha) && (device.here(sha) < size || !device.entry(sha))),
    /** The places of the chunks of a file that are to be loaded. */
    places: ({ sha }: FileRef): number[] => (device.entry(sha) ? device.missing(sha) : [0]),
    /** A file could not be loaded: its state from now on. Undefined if the error passes. */
    unloaded({ sha }: FileRef, code: string, isRetryable: boolean): Doing | undefined {
      if (isRetryable && code !== "file_damaged") return undefined;
      failed.add(sha);
      return { phase: "failed", code };
    },
    /** The server can be reached: files that it lacked may be there now. */
    back: (): void => failed.clear(),

    /** Why the device keeps each file, at this moment, and as far as the core says. */
    reasons(now: number, local: readonly string[], referenced: readonly string[]): (entry: Entry) => Reason {
      const [ofLocal, ofOthers, kept] = [new Set(local), new Set(referenced), wanted()];
      return ({ key, added }) => {
        if (ofLocal.has(key)) return "local";
        if (ofOthers.has(key) || needed.has(key) || added > now - ADDED_MS) return "pending";
        return kept.has(key) ? "kept" : "cached";
      };
    },
  };
}

/** The files that are removed so that bytes without a reason are at most so many: the least recently read first, in groups. */
export function evicted(device: Device, most: number, reasonOf: (entry: Entry) => Reason): Known[][] {
  const cache = device.files().filter((file) => reasonOf(file) === "cached");
  cache.sort((a, b) => a.read - b.read);
  let left = cache.reduce((sum, { key }) => sum + device.here(key), 0);
  const going = cache.filter(({ key }) => {
    const bytes = device.here(key);
    // A record without bytes is of no use.
    const goes = left > most || bytes === 0;
    if (goes) left -= bytes;
    return goes;
  });
  return Array.from({ length: Math.ceil(going.length / TOGETHER) }, (_, at) => going.slice(at * TOGETHER, (at + 1) * TOGETHER));
}

/** Those of the chunks that no other file has. */
export function unshared(device: Device, names: readonly string[], own: readonly Known[]): string[] {
  const others = new Set(device.files().flatMap((known) => (own.includes(known) ? [] : known.names)));
  return names.filter((name) => !others.has(name));
}

/** The bytes on the device, by their reason. Files share chunks. */
export function usage(device: Device, reasonOf: (entry: Entry) => Reason): Record<Reason, number> {
  const sums: Record<Reason, number> = { pending: 0, local: 0, kept: 0, cached: 0 };
  const seen = new Set<string>();
  for (const file of device.files()) {
    for (const [place, name] of file.names.entries()) {
      if (!seen.has(name) && device.isHeld(name)) sums[reasonOf(file)] += lengthOf(file.size, place);
      seen.add(name);
    }
  }
  return sums;
}
