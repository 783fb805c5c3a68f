/** The files of a session: its parts, the calls of the application, and the news of the session and of other tabs. */

import { partsOf } from "../platform/streams.js";
import type { FileRef, FilesHost, OpenFiles } from "../session/files.js";
import type { StatusValue } from "../session/status.js";
import { add } from "./adding.js";
import { checkRef, isRef } from "./address.js";
import { openCatalogue, type Catalogue, type Entry, type Rule } from "./catalogue.js";
import { cipherOf } from "./cipher.js";
import { DatabaseStore } from "./database.js";
import { closed, fault, toFault } from "./faults.js";
import { keepingOf, type Keeping } from "./keeping.js";
import { pausesOf } from "./retry.js";
import { planOf, usage, type Reason } from "./plan.js";
import { readingOf } from "./reading.js";
import { remoteOf } from "./remote.js";
import { spaceOf, type Space } from "./space.js";
import { statesOf, type Doing } from "./states.js";
import { MemoryStore } from "./store.js";
import { tabsOf, type TabMessage } from "./tabs.js";
import type { Files } from "./types.js";
import { uploadsOf } from "./uploads.js";

/** The longest file that `bytes` gives at once. */
const BYTES_MAX = 64 << 20;

/** Opens the files of a session. */
export async function openFiles(host: FilesHost): Promise<OpenFiles> {
  if (!(globalThis.crypto as Crypto | undefined)?.subtle) throw fault("not_supported", "files need a secure context");
  const keys = host.keys();
  const isMemory = host.name === undefined || !keys;
  const store = isMemory ? new MemoryStore() : new DatabaseStore(host.databases, host.name);
  try {
    return assemble(host, await openCatalogue(store, await cipherOf(keys)), isMemory);
  } catch (error) {
    store.end();
    throw toFault(error);
  }
}

function assemble(host: FilesHost, catalogue: Catalogue, isMemory: boolean): OpenFiles {
  const ending = new AbortController();
  const { signal } = ending;
  let [leads, wasLive] = [false, false];
  /** Reports an error that belongs to no call. */
  const fail = (error: unknown): void => {
    if (!signal.aborted) host.fail(toFault(error));
  };
  /** Removes a cache that has grown too large. */
  const trim = (): void => {
    if (leads) space.trim().catch(fail);
  };

  /** News of another tab. */
  const hear = ({ put = [], gone = [], record, doing = [], isNew, hello, room: news }: TabMessage): void => {
    catalogue.note(put, gone);
    if (record !== undefined) {
      const had = catalogue.entry(record);
      const heard = catalogue.reload(record).then((has) => {
        if (had?.rule ?? has?.rule) keeping.reload();
        else uploads.go();
        trim();
      });
      heard.catch(fail);
    }
    if (isNew) states.forget();
    for (const [sha, what] of doing) states.set(sha, what as Doing | null, false);
    if (hello && leads) tabs.post({ doing: states.all() });
    if (news === "made") space.made();
    else if (news && leads) space.trim(0).then(() => tabs.post({ room: "made" }), fail);
  };

  /** Why the device keeps each file, at this moment. */
  const reasons = (): ((entry: Entry) => Reason) => plan.reasons(Date.now(), host.local(), host.referenced());

  /** The session's role, or the network, may be another one. */
  const follow = (status: StatusValue): void => {
    const isBack = status.phase === "live" && !wasLive;
    wasLive = status.phase === "live";
    if (isBack) pauses.wake();
    if (status.leads !== leads) {
      leads = status.leads;
      if (leads) tabs.post({ isNew: true });
      else uploads.pause();
      keeping.lead(leads);
      trim();
    }
    uploads.go();
    if (isBack) keeping.tryAgain();
    else keeping.go();
  };

  const pauses = pausesOf(signal);
  const tabs = tabsOf(isMemory ? undefined : host.name, signal, hear);
  const states = statesOf(catalogue, (sha, doing) => tabs.post({ doing: [[sha, doing]] }));
  const remote = remoteOf(host, signal);
  const plan = planOf(catalogue, () => host.status.leads && remote.isOpen());
  const common = { host, catalogue, tabs, states, pauses, isMemory, reasons, trim, remote, plan };
  const space: Space = spaceOf({ ...common, knowsReasons: () => keeping.isComplete() });
  const reading = readingOf({ ...common, space });
  const uploads = uploadsOf(common);
  const keeping: Keeping = keepingOf({ ...common, reading });
  catalogue.onChange = (key) => states.changed(key);
  const stop = host.status.subscribe(follow);
  tabs.post({ hello: true });

  /** The reference, while the session is open. */
  const checked = (ref: FileRef): FileRef => {
    if (signal.aborted) throw closed();
    return checkRef(ref);
  };
  const files: Files = {
    async add(data, about = {}) {
      if (signal.aborted) throw closed();
      const ref = await add({ catalogue, space, tabs }, data, about);
      uploads.go();
      return ref;
    },
    read: (ref, range = {}) => reading.stream(checked(ref), range),
    async bytes(ref) {
      const { size } = checked(ref);
      if (size > BYTES_MAX) throw fault("too_large", "bytes gives 64 MiB at most: use read");
      const all = new Uint8Array(size);
      let at = 0;
      for await (const part of partsOf(reading.stream(ref, {}))) {
        all.set(part, at);
        at += part.length;
      }
      return all;
    },
    keep(what) {
      if (signal.aborted) throw closed();
      if (!isRef(what) && typeof (what as Rule).match !== "object") throw fault("bad_option", "keep: a reference, or class and match");
      return keeping.keep({ ...what });
    },
    keeps: () => keeping.keeps(),
    state: (ref) => states.of(checkRef(ref)),
    subscribe: (ref, callback) => states.subscribe(checked(ref), callback),
    discard(ref) {
      const { sha } = checked(ref);
      const change = (entry: Entry | undefined): Entry | undefined => entry && { ...entry, added: 0 };
      const discarded = catalogue.find(sha).then(() => catalogue.save(sha, change));
      discarded.then(() => tabs.post({ record: sha })).then(trim, fail);
    },
    usage: () => Promise.resolve(usage(catalogue, reasons())),
  };
  return {
    files: Object.freeze(files),
    needed: (shas) => uploads.needed(shas),
    end() {
      if (signal.aborted) return;
      stop();
      ending.abort();
      keeping.end();
      states.end();
      tabs.end();
      catalogue.end();
    },
  };
}
