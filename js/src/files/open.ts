/** The files of a session: its parts, the calls of the application, and the news of the session and of other tabs. */

import type { FileRef, FilesHost, OpenFiles } from "../session/files.js";
import type { StatusValue } from "../session/status.js";
import type { Stop } from "../views/view.js";
import { add, type About, type Data } from "./adding.js";
import { checkRef, isRef, lengthOf } from "./address.js";
import { Catalogue, type Entry, type Rule } from "./catalogue.js";
import { Cipher } from "./cipher.js";
import { DatabaseStore } from "./database.js";
import { closed, fault, toFault } from "./faults.js";
import { Keeping } from "./keeping.js";
import { Pauses } from "./pauses.js";
import { Reading, type Range } from "./reading.js";
import { Remote } from "./remote.js";
import { ADDED_MS, Room, type Reason } from "./room.js";
import { States, type Doing } from "./states.js";
import { MemoryStore } from "./store.js";
import { Tabs, type TabMessage } from "./tabs.js";
import type { Files, FilesUsage, FileState, Keep } from "./types.js";
import { Uploads } from "./uploads.js";

/** The longest file that `bytes` gives at once. */
const BYTES_MAX = 64 << 20;

/** Opens the files of a session. */
export async function openFiles(host: FilesHost): Promise<OpenFiles> {
  if (!(globalThis.crypto as Crypto | undefined)?.subtle) throw fault("not_supported", "files need a secure context");
  const keys = host.keys();
  const isMemory = host.name === undefined || !keys;
  const store = isMemory ? new MemoryStore() : new DatabaseStore(host.databases, host.name);
  try {
    return new Opened(host, await Catalogue.open(store, await Cipher.of(keys)), isMemory);
  } catch (error) {
    store.end();
    throw toFault(error);
  }
}

class Opened implements OpenFiles, Files {
  readonly files: Files;
  readonly #host: FilesHost;
  readonly #ending = new AbortController();
  readonly #pauses = new Pauses();
  readonly #catalogue: Catalogue;
  readonly #tabs: Tabs;
  readonly #states: States;
  readonly #room: Room;
  readonly #reading: Reading;
  readonly #uploads: Uploads;
  readonly #keeping: Keeping;
  readonly #stop: Stop;
  #leads = false;
  #wasLive = false;

  constructor(host: FilesHost, catalogue: Catalogue, isMemory: boolean) {
    this.#host = host;
    this.#catalogue = catalogue;
    const { signal } = this.#ending;
    const pauses = this.#pauses;
    const tabs = new Tabs(isMemory ? undefined : host.name, signal, (message) => this.#hear(message));
    const states = new States(catalogue, (sha, doing) => tabs.post({ doing: [[sha, doing]] }));
    const remote = new Remote(host, signal);
    const room = new Room({
      catalogue,
      tabs,
      isMemory,
      knowsReasons: () => this.#keeping.isComplete,
      reasons: () => this.#reasons(),
      onRoom: () => pauses.wake(),
    });
    const reading = new Reading({ catalogue, remote, room, tabs, pauses });
    this.#tabs = tabs;
    this.#states = states;
    this.#room = room;
    this.#reading = reading;
    this.#uploads = new Uploads({ host, catalogue, remote, states, pauses });
    this.#keeping = new Keeping({ host, catalogue, remote, reading, states, tabs, pauses, onRelease: () => this.#trim() });
    catalogue.onChange = (key) => {
      states.changed(key);
    };
    this.files = this;
    this.#stop = host.status.subscribe((status) => this.#follow(status));
    tabs.post({ hello: true });
  }

  needed(shas: readonly string[]): void {
    this.#uploads.needed(shas);
  }

  end(): void {
    if (this.#ending.signal.aborted) return;
    this.#stop();
    this.#ending.abort();
    this.#pauses.end();
    this.#keeping.end();
    this.#states.end();
    this.#tabs.end();
    this.#catalogue.end();
  }

  async add(data: Data, about: About = {}): Promise<FileRef> {
    this.#check();
    const ref = await add({ catalogue: this.#catalogue, room: this.#room, tabs: this.#tabs }, data, about);
    this.#uploads.go();
    return ref;
  }

  read(ref: FileRef, range: Range = {}): ReadableStream<Uint8Array> {
    this.#check();
    return this.#reading.stream(checkRef(ref), range);
  }

  async bytes(ref: FileRef): Promise<Uint8Array> {
    this.#check();
    const { size } = checkRef(ref);
    if (size > BYTES_MAX) throw fault("too_large", "bytes gives 64 MiB at most: use read");
    const all = new Uint8Array(size);
    const reader = this.#reading.stream(ref, {}).getReader();
    for (let at = 0; ; ) {
      const { done, value } = await reader.read();
      if (done) return all;
      all.set(value, at);
      at += value.length;
    }
  }

  keep(what: FileRef | Rule): Keep {
    this.#check();
    if (!isRef(what) && typeof (what).match !== "object") throw fault("bad_option", "keep takes a reference, or a class and a match");
    return this.#keeping.keep({ ...what });
  }

  keeps(): readonly Keep[] {
    return this.#keeping.keeps();
  }

  state(ref: FileRef): FileState {
    return this.#states.of(checkRef(ref));
  }

  subscribe(ref: FileRef, callback: (state: FileState) => unknown): Stop {
    this.#check();
    if (typeof callback !== "function") throw fault("bad_option", "subscribe takes a function");
    return this.#states.subscribe(checkRef(ref), callback);
  }

  discard(ref: FileRef): void {
    this.#check();
    const { sha } = checkRef(ref);
    const discarded = this.#catalogue.find(sha).then(() => this.#catalogue.save(sha, (entry) => entry && { ...entry, added: 0 }));
    const over = (): void => {
      this.#tabs.post({ record: sha });
      this.#trim();
    };
    discarded.then(over, (error: unknown) => this.#host.fail(toFault(error)));
  }

  usage(): Promise<FilesUsage> {
    this.#check();
    const sums: Record<Reason, number> = { pending: 0, local: 0, kept: 0, cached: 0 };
    const reasons = this.#reasons();
    const seen = new Set<string>();
    for (const { key, names } of this.#catalogue.names()) {
      const entry = this.#catalogue.entry(key);
      for (const [place, name] of entry && !entry.rule ? names.entries() : []) {
        // Files share chunks.
        if (!entry || seen.has(name) || !this.#catalogue.isHeld(name)) continue;
        seen.add(name);
        sums[reasons(entry)] += lengthOf(entry.size, place);
      }
    }
    return Promise.resolve(Object.freeze(sums));
  }

  #check(): void {
    if (this.#ending.signal.aborted) throw closed();
  }

  /** Why the device keeps each file, at this moment. */
  #reasons(): (entry: Entry) => Reason {
    const local = new Set(this.#host.local?.());
    const referenced = new Set(this.#host.referenced());
    const wanted = this.#keeping.wanted();
    const oldest = Date.now() - ADDED_MS;
    return ({ key, added }) => {
      if (local.has(key)) return "local";
      if (referenced.has(key) || this.#uploads.has(key) || added > oldest) return "pending";
      return wanted.has(key) ? "kept" : "cached";
    };
  }

  /** The session's role, or the network, may be another one. */
  #follow({ leads, phase }: StatusValue): void {
    const isLive = phase === "live";
    if (isLive && !this.#wasLive) this.#pauses.wake();
    const isBack = isLive && !this.#wasLive;
    this.#wasLive = isLive;
    if (leads !== this.#leads) {
      this.#leads = leads;
      if (leads) this.#tabs.post({ isNew: true });
      else this.#uploads.pause();
      this.#keeping.lead(leads);
      if (leads) this.#trim();
    }
    this.#uploads.go();
    if (isBack) this.#keeping.tryAgain();
    else this.#keeping.go();
  }

  #hear({ put = [], gone = [], record, doing = [], isNew, hello, room }: TabMessage): void {
    this.#catalogue.note(put, gone);
    if (record !== undefined) {
      const heard = async (): Promise<void> => {
        const had = this.#catalogue.entry(record);
        const has = await this.#catalogue.reload(record);
        if (had?.rule ?? has?.rule) this.#keeping.reload();
        else this.#uploads.go();
        this.#trim();
      };
      heard().catch((error: unknown) => this.#ending.signal.aborted || this.#host.fail(toFault(error)));
    }
    if (isNew) this.#states.forget();
    for (const [sha, what] of doing) this.#states.set(sha, what as Doing | null, false);
    if (hello && this.#leads) this.#tabs.post({ doing: this.#states.all() });
    if (room === "made") this.#room.made();
    if (room === "wanted" && this.#leads) void this.#room.trim(0).then(() => this.#tabs.post({ room: "made" }), () => {});
  }

  /** Removes a cache that has grown too large. */
  #trim(): void {
    if (this.#leads) this.#room.trim().catch((error: unknown) => this.#ending.signal.aborted || this.#host.fail(toFault(error)));
  }
}
