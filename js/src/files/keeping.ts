/**
 * Rules that keep files on the device, and their downloads by the session that leads. A rule follows the documents of its
 * match, and keeps the files that they reference now.
 */

import { random, toText } from "../shared.js";
import type { FileRef, FilesHost } from "../session/files.js";
import type { Stop } from "../views/view.js";
import type { Catalogue, Rule } from "./catalogue.js";
import { toFault } from "./faults.js";
import { concurrently, retryRounds, type Pauses } from "./retry.js";
import type { Plan } from "./plan.js";
import type { Reading } from "./reading.js";
import type { Remote } from "./remote.js";
import type { States } from "./states.js";
import type { Tabs } from "./tabs.js";
import type { Keep, KeptMatch } from "./types.js";

interface Parts {
  readonly host: FilesHost;
  readonly catalogue: Catalogue;
  readonly remote: Remote;
  readonly reading: Reading;
  readonly states: States;
  readonly tabs: Tabs;
  readonly pauses: Pauses;
  readonly plan: Plan;
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
  /** Whether this session leads, and the files of all rules are known. */
  isComplete(): boolean;
  /** The server can be reached: files that it lacked may be there now. */
  tryAgain(): void;
  /** Goes on with downloads, if it may. */
  go(): void;
  end(): void;
}

export function keepingOf(parts: Parts): Keeping {
  const { host, catalogue, remote, reading, states, tabs, plan, trim } = parts;
  const rules = new Map<string, Rule>();
  /** The rules that this session follows: all while it leads, else none. Each with the end of its documents. */
  const followed = new Map<string, { stop: Stop }>();
  let writing: Promise<unknown> = Promise.resolve();
  let leads = false;

  /** Loads the missing chunks of a file. An error that cannot pass ends it. */
  const load = async (ref: FileRef): Promise<void> => {
    const { sha } = ref;
    try {
      states.set(sha, { phase: "loading" });
      const chunks = await reading.chunks(ref);
      await concurrently(plan.places(ref), async (place) => {
        if (remote.isOpen() && plan.wanted().has(sha)) await reading.chunk(ref, chunks, place, true);
      });
      states.set(sha, null);
    } catch (error) {
      const { code, retryable } = toFault(error);
      const doing = plan.unloaded(ref, code, retryable);
      if (!doing) throw error;
      states.set(sha, doing);
    }
  };

  const go = retryRounds(parts, () => plan.toLoad().map(({ sha }) => sha), () => concurrently(plan.toLoad(), load));

  /** Follows exactly the rules that there are, if this session leads. */
  const follow = (): void => {
    for (const [id, { stop }] of [...followed]) {
      if (leads && rules.has(id)) continue;
      followed.delete(id);
      plan.release(id);
      stop();
    }
    for (const [id, rule] of leads ? rules : []) {
      if (followed.has(id)) continue;
      const own = { stop: () => {} };
      followed.set(id, own);
      plan.follow(id, rule);
      const { class: name } = rule;
      if (name === undefined) continue;
      try {
        own.stop = host.follow(name, rule.match ?? {}, (documents) => {
          if (followed.get(id) !== own) return;
          plan.match(id, rule, documents, rule.properties ?? host.fileProperties(name));
          go();
        });
      } catch {
        // The schema has no such class any more: the rule keeps nothing.
        plan.match(id, rule, [], []);
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
    isComplete: () => leads && plan.isComplete(),
    tryAgain() {
      plan.back();
      go();
    },
    go,
    end() {
      rules.clear();
      lead(false);
    },
  };
}
