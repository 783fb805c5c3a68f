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
  readonly trim: () => void;
}

export interface Keeping {
  keep(rule: Rule): Keep;
  keeps(): readonly Keep[];
  /** Takes the rules as the device has them: another tab may have changed them. */
  reload(): void;
  /** Whether this session leads from now on. */
  lead(leads: boolean): void;
  /** Whether the files of all rules are known. */
  isComplete(): boolean;
  /** The files that rules keep. */
  wanted(): Map<string, FileRef>;
  /** The server can be reached: files that it lacked may be there now. */
  tryAgain(): void;
  /** Goes on with downloads, if it may. */
  go(): void;
  end(): void;
}

export function keepingOf(parts: Parts): Keeping {
  const { host, catalogue, remote, reading, states, tabs, trim } = parts;
  const rules = new Map<string, Rule>();
  /** The rules that this session follows: all while it leads, else none. */
  const followed = new Map<string, Followed>();
  /** Files that cannot be loaded, until the server can be reached again. */
  const failed = new Set<string>();
  let writing: Promise<unknown> = Promise.resolve();
  let leads = false;

  const wanted = (): Map<string, FileRef> =>
    new Map([...followed.values()].flatMap(({ wanted = [] }) => wanted.map((ref) => [ref.sha, ref] as const)));

  /** The files that are not here yet. */
  const left = (): FileRef[] =>
    [...wanted().values()].filter(({ sha, size }) => !failed.has(sha) && (catalogue.here(sha) < size || !catalogue.entry(sha)));

  /** Loads the missing chunks of a file. An error that cannot pass ends it. */
  const load = async (ref: FileRef): Promise<void> => {
    const { sha } = ref;
    try {
      states.set(sha, { phase: "loading" });
      const chunks = await reading.chunks(ref);
      await inTurn(catalogue.entry(sha) ? catalogue.missing(sha) : [0], async (place) => {
        if (remote.isOpen() && wanted().has(sha)) await reading.chunk(ref, chunks, place, true);
      });
      states.set(sha, null);
    } catch (error) {
      const { code, retryable } = toFault(error);
      if (retryable && code !== "file_damaged") throw error;
      failed.add(sha);
      states.set(sha, { phase: "failed", code });
    }
  };

  const go = rounds(parts, left, () => inTurn(left(), load));

  /** The files of documents that a rule keeps. */
  const filesOf = ({ class: name = "", properties, max = Infinity }: Rule, documents: readonly Record<string, unknown>[]): FileRef[] => {
    const named = properties ?? host.fileProperties(name);
    const values = documents.flatMap((document) => named.flatMap((property) => document[property]));
    return values.filter(isRef).filter(({ size }) => size <= max);
  };

  /** Follows exactly the rules that there are, if this session leads. */
  const follow = (): void => {
    for (const [id, { stop }] of [...followed]) {
      if (leads && rules.has(id)) continue;
      followed.delete(id);
      stop();
    }
    for (const [id, rule] of leads ? rules : []) {
      if (followed.has(id)) continue;
      const own: Followed = { wanted: isRef(rule) ? [rule] : undefined, stop: () => {} };
      followed.set(id, own);
      if (rule.class === undefined) continue;
      try {
        own.stop = host.follow(rule.class, rule.match ?? {}, (documents) => {
          if (followed.get(id) !== own) return;
          own.wanted = filesOf(rule, documents);
          go();
        });
      } catch {
        // The schema has no such class any more: the rule keeps nothing.
        own.wanted = [];
      }
    }
    go();
  };

  const write = (id: string, rule?: Rule): Promise<void> => {
    const entry = rule && { key: id, size: 0, added: 0, read: 0, rule, chunks: [] };
    const written = writing
      .then(() => catalogue.save(id, () => entry, { isDurable: true }))
      .then(() => tabs.post({ record: id }))
      .catch((error: unknown) => {
        const failed = toFault(error);
        host.fail(failed);
        throw failed;
      });
    writing = written.catch(() => {});
    return written;
  };

  const handle = (id: string, rule: Rule, saved = Promise.resolve()): Keep =>
    Object.freeze({
      id,
      what: rule as FileRef | KeptMatch,
      saved,
      release() {
        if (!rules.delete(id)) return;
        void write(id);
        follow();
        trim();
      },
    });

  const reload = (): void => {
    rules.clear();
    for (const { key, rule } of catalogue.all()) if (rule) rules.set(key, rule);
    follow();
  };

  const lead = (now: boolean): void => {
    leads = now;
    follow();
  };

  reload();
  return {
    keep(rule) {
      const id = toText(random(16));
      rules.set(id, rule);
      const saved = write(id, rule);
      follow();
      return handle(id, rule, saved);
    },
    keeps: () => Object.freeze([...rules].map(([id, rule]) => handle(id, rule))),
    reload,
    lead,
    isComplete: () => leads && [...followed.values()].every(({ wanted }) => wanted),
    wanted,
    tryAgain() {
      failed.clear();
      go();
    },
    go,
    end() {
      rules.clear();
      lead(false);
    },
  };
}
