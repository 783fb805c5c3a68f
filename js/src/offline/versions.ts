/** Which version of the application each open page began with. A page gets its files from that version only. */

import { prefixOf } from "./list.js";
import type { WorkerScope } from "./scope.js";

/** The version of a page that came from the network: its files come from there, too. */
export const NETWORK = "network";

interface Record {
  /** The version that took over last. */
  active?: string;
  /** By client: the version that it began with, and until when it may still be loading; 0 once it was seen open. */
  clients: { [id: string]: [version: string, loadingUntil: number] };
}

/** A page that is loading is not among the open ones yet: for so long, at most. */
const LOADING_MS = 60_000;

/**
 * The record of the versions of pages. It is in a cache, because a browser ends an idle worker at any time. Only the active
 * worker may use it.
 */
export class Versions {
  readonly #self: WorkerScope;
  readonly #current: string;
  readonly #url: string;
  #loaded: Record | undefined;
  #loading: Promise<Record> | undefined;

  constructor(self: WorkerScope, current: string) {
    this.#self = self;
    this.#current = current;
    this.#url = new URL("?escale-versions", self.registration.scope).href;
  }

  /** Whether all open pages are of this version; undefined as long as that is not known. */
  get areCurrent(): boolean | undefined {
    return this.#loaded && Object.keys(this.#loaded.clients).length === 0;
  }

  /** The version that a page began with. */
  async of(client: string): Promise<string> {
    return (await this.#read()).clients[client]?.[0] ?? this.#current;
  }

  /** Notes the version of a page, or of a page's own worker, that begins now. */
  async begin(client: string, version: string): Promise<void> {
    if (client === "") return;
    const record = await this.#read();
    record.clients[client] = [version, Date.now() + LOADING_MS];
    await this.#write(record);
  }

  /**
   * This version takes over, unless it has: the open pages keep the version that they have. The browser may end the worker
   * before that is noted, so each event of an active worker begins with it.
   */
  async takeOver(): Promise<void> {
    await this.#read();
  }

  /** Forgets pages that are closed, and returns the versions that are in use. */
  async inUse(): Promise<ReadonlySet<string>> {
    const record = await this.#read();
    const open = new Set((await this.#open()).map(({ id }) => id));
    let isChanged = false;
    for (const [id, client] of Object.entries(record.clients)) {
      const isOver = !open.has(id) && client[1] < Date.now();
      const isSeen = open.has(id) && client[1] > 0;
      if (isOver) Reflect.deleteProperty(record.clients, id);
      if (isSeen) client[1] = 0;
      isChanged ||= isOver || isSeen;
    }
    if (isChanged) await this.#write(record);
    return new Set([this.#current, RECORD, ...Object.values(record.clients).map(([version]) => version)]);
  }

  #open(): ReturnType<WorkerScope["clients"]["matchAll"]> {
    return this.#self.clients.matchAll({ type: "all", includeUncontrolled: true });
  }

  async #read(): Promise<Record> {
    this.#loading ??= this.#load();
    return await this.#loading;
  }

  async #load(): Promise<Record> {
    // A record that cannot be read is that of a scope without earlier versions.
    const found = await this.#cache().then((cache) => cache.match(this.#url)).catch(() => undefined);
    const record = found ? ((await found.json()) as Record) : { clients: {} };
    if (record.active !== this.#current) {
      for (const { id } of await this.#open()) record.clients[id] ??= [record.active ?? NETWORK, 0];
      record.active = this.#current;
      // Without room for the record, pages still get this version's files.
      await this.#write(record).catch(() => {});
    }
    this.#loaded = record;
    return record;
  }

  async #write(record: Record): Promise<void> {
    await (await this.#cache()).put(this.#url, new Response(JSON.stringify(record)));
  }

  #cache(): Promise<Cache> {
    return caches.open(prefixOf(this.#self.registration.scope) + RECORD);
  }
}

/** The cache of the record is called like a version, so that it is removed with them. */
const RECORD = "record";
