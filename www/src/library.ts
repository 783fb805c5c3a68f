/**
 * The followed topics, and the list of their packages.
 *
 * Each topic is one `session.live`. The list is their union, narrowed to one of them, filtered and sorted. Changes of
 * several topics in one frame cause one new list. Nothing is stored here: the session keeps the followed topics in its
 * sealed store.
 */

import { topicsOf } from "./defs";
import { nextFrame } from "./dom";
import type { Package } from "./schema";
import type { Session } from "./session";
import { topicId, topicMatch, type Topic } from "./topics";

/** A followed topic. */
export interface Followed {
  topic: Topic;
  docs: readonly Package[];
  /** Whether a complete load has finished at least once. Before that, `docs` has only the documents received so far. */
  ready: boolean;
  /** Whether the session has called back. Before that, nothing is known. */
  told: boolean;
}

/** The ways to sort the list. */
export type Sort = "name" | "installedSize" | "size";

/** A change of a topic after its first load. */
export interface Activity {
  at: number;
  topic: Topic;
  changed: number;
  left: number;
}

/** A new list, and the names of the packages that changed since the last one. */
export interface Rows {
  rows: readonly Package[];
  changed: ReadonlySet<string>;
}

const ACTIVITY_MAX = 50;

interface Entry extends Followed {
  stop: () => void;
  /** The packages of `docs` by name, made on demand. */
  names: Map<string, Package> | undefined;
}

/** The packages that a session follows. */
export class Library {
  /** The last changes, the newest first. */
  readonly activity: Activity[] = [];
  private readonly entries = new Map<string, Entry>();
  private readonly rowListeners: ((rows: Rows) => void)[] = [];
  private readonly topicListeners: (() => void)[] = [];
  private readonly leavingListeners: ((topic: Topic) => void)[] = [];
  private readonly haystacks = new WeakMap<Package, string>();
  private changed = new Set<string>();
  private narrowed: string | undefined;
  private filter = "";
  private sort: Sort = "name";
  private scheduled = false;
  private topicsChanged = false;
  private stopped = false;

  /** The topic of each def, for the inspector. */
  private readonly defs: Map<string, Topic>;

  private constructor(
    private readonly session: Session,
    defs: Map<string, Topic>,
  ) {
    this.defs = defs;
    for (const topic of [...defs.values()]) this.listen(topic);
  }

  /** Starts with the subscriptions that the session already has. */
  static async of(session: Session): Promise<Library> {
    return new Library(session, await topicsOf(session));
  }

  /** The topic of a def; `undefined` if this page did not make the def. */
  topicOf(def: string): Topic | undefined {
    return this.defs.get(def);
  }

  /** Calls back with the list, once it is known and at every change of it. */
  onRows(listener: (rows: Rows) => void): void {
    this.rowListeners.push(listener);
    this.schedule();
  }

  /** Calls back when a topic is followed, receives documents, or is left. */
  onTopics(listener: () => void): void {
    this.topicListeners.push(listener);
    this.topicsChanged = true;
    this.schedule();
  }

  /** Calls back before a topic is left: a query of its packages must end before its subscription. */
  onLeaving(listener: (topic: Topic) => void): void {
    this.leavingListeners.push(listener);
  }

  /** Follows a topic. Calling it again changes nothing. */
  follow(topic: Topic): void {
    if (!this.entries.has(topicId(topic))) this.listen(topic);
  }

  /** Ends the subscription. Packages that no other topic holds leave the device. */
  unfollow(topic: Topic): void {
    const id = topicId(topic);
    const entry = this.entries.get(id);
    if (!entry) return;
    for (const listener of this.leavingListeners) listener(topic);
    entry.stop();
    this.entries.delete(id);
    if (this.narrowed === id) this.narrowed = undefined;
    this.session.unsubscribe("Package", topicMatch(topic));
    this.schedule(true);
  }

  /** The followed topics, in the order in which they were first followed. */
  topics(): readonly Followed[] {
    return [...this.entries.values()];
  }

  /** One followed topic. */
  topic(topic: Topic): Followed | undefined {
    return this.entries.get(topicId(topic));
  }

  /** The topic that the list is narrowed to. */
  get narrowedTo(): Topic | undefined {
    return this.narrowed === undefined ? undefined : this.entries.get(this.narrowed)?.topic;
  }

  /** Narrows the list to one followed topic, or shows all of them again. */
  narrow(topic: Topic | undefined): void {
    this.narrowed = topic && topicId(topic);
    this.schedule(true);
  }

  /** Keeps the packages with every word of `text` in their name or summary. */
  setFilter(text: string): void {
    this.filter = text.trim().toLowerCase();
    this.schedule();
  }

  /** The filter's text, in lower case. */
  get filterText(): string {
    return this.filter;
  }

  /** Sorts by name, or by a size with the greatest first. */
  setSort(sort: Sort): void {
    this.sort = sort;
    this.schedule();
  }

  /** The current version of a followed package, by its name. */
  find(name: string): Package | undefined {
    for (const entry of this.entries.values()) {
      entry.names ??= new Map(entry.docs.map((doc) => [doc.name, doc]));
      const found = entry.names.get(name);
      if (found) return found;
    }
    return undefined;
  }

  /** Stops listening; the subscriptions stay. */
  stop(): void {
    this.stopped = true;
    for (const entry of this.entries.values()) entry.stop();
    this.entries.clear();
  }

  private listen(topic: Topic): void {
    const match = topicMatch(topic);
    const entry: Entry = { topic, docs: [], ready: false, told: false, stop: () => undefined, names: undefined };
    this.entries.set(topicId(topic), entry);
    const before = new Set(this.session.subscriptions());
    // Its visitor follows it until they say otherwise.
    entry.stop = this.session.live("Package", match, (docs, { ready }) => this.receive(entry, docs, ready), { keep: "forever" });
    const made = this.session.subscriptions().find((def) => !before.has(def));
    if (made !== undefined) this.defs.set(made, topic);
    this.schedule(true);
  }

  private receive(entry: Entry, docs: readonly Package[], ready: boolean): void {
    if (entry.ready) this.note(entry, docs);
    entry.docs = docs;
    entry.ready = ready;
    entry.told = true;
    entry.names = undefined;
    this.schedule(true);
  }

  private note(entry: Entry, docs: readonly Package[]): void {
    const before = new Set(entry.docs);
    const now = new Set<string>();
    let changed = 0;
    for (const doc of docs) {
      now.add(doc.name);
      if (before.has(doc)) continue;
      changed += 1;
      this.changed.add(doc.name);
    }
    const left = entry.docs.reduce((n, doc) => (now.has(doc.name) ? n : n + 1), 0);
    if (changed === 0 && left === 0) return;
    this.activity.unshift({ at: Date.now(), topic: entry.topic, changed, left });
    this.activity.length = Math.min(this.activity.length, ACTIVITY_MAX);
  }

  private schedule(topics = false): void {
    this.topicsChanged ||= topics;
    if (this.scheduled) return;
    this.scheduled = true;
    nextFrame(() => {
      this.scheduled = false;
      if (!this.stopped) this.publish();
    });
  }

  private publish(): void {
    if (this.topicsChanged) {
      this.topicsChanged = false;
      for (const listener of this.topicListeners) listener();
    }
    const changed = this.changed;
    this.changed = new Set();
    const rows = this.sorted(this.filtered(this.union()));
    for (const listener of this.rowListeners) listener({ rows, changed });
  }

  private union(): readonly Package[] {
    const entries = this.narrowed === undefined ? [...this.entries.values()] : [this.entries.get(this.narrowed)];
    if (entries.length === 1) return entries[0]?.docs ?? [];
    const all = new Set<Package>();
    for (const entry of entries) for (const doc of entry?.docs ?? []) all.add(doc);
    return [...all];
  }

  private filtered(docs: readonly Package[]): readonly Package[] {
    if (this.filter === "") return docs;
    const words = this.filter.split(/\s+/);
    return docs.filter((doc) => {
      const text = this.haystack(doc);
      return words.every((word) => text.includes(word));
    });
  }

  private haystack(doc: Package): string {
    let text = this.haystacks.get(doc);
    if (text === undefined) {
      text = `${doc.name} ${doc.summary}`.toLowerCase();
      this.haystacks.set(doc, text);
    }
    return text;
  }

  private sorted(docs: readonly Package[]): readonly Package[] {
    const by = this.sort;
    const byName = (a: Package, b: Package): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
    return by === "name" ? [...docs].sort(byName) : [...docs].sort((a, b) => b[by] - a[by] || byName(a, b));
  }
}
