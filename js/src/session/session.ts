/**
 * The session: the API of the application for one open store. It checks arguments, calls the core, and turns every
 * error into an `EscaleError`.
 */

import type { Batch } from "../writes/batch.js";
import type { Core, Ending, OperationNews, PastAction } from "../wasm/core.js";
import type { Device } from "../wasm/device.js";
import type { Documents } from "../views/documents.js";
import { EscaleError, raise, toEscaleError } from "../base/errors.js";
import { checkSweep, type Journal, type Swept } from "../writes/journal.js";
import type { Supervisor } from "../wasm/supervisor.js";
import { documentOf } from "../schema/migrate.js";
import type {
  ArgsOf,
  ChangesOf,
  DataOf,
  Operation,
  OperationName,
  Operations,
  OrderOptions,
  PastState,
  PatchOptions,
  PendingOperation,
  Refused,
  RunOptions,
  WriteOptions,
} from "../writes/operation-types.js";
import { checkMode, checkPassphrase } from "./options.js";
import type { AccountEntry, Identity } from "./entry.js";
import type { Files } from "../files/types.js";
import type { Inspection, Meta, Parts, QuotaState } from "./parts.js";
import { byKey } from "../schema/order.js";
import { checkCallback, checkMatch, Query, textOf, type QueryParts, type QuerySource, type QueryState } from "../schema/query.js";
import type { Schema } from "../schema/schema.js";
import type { ClassName, DocumentOf, KeyOf, MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import type { LiveStatus, Mode, Status } from "./status.js";
import { requestPersistence, usage, type Persistence, type StorageUsage } from "../base/storage.js";
import { reviveMap } from "../schema/raw.js";
import { notLoaded } from "../views/waiting.js";
import { isSameList, orNone, type LiveQuestion } from "../views/live-query.js";
import type { Composite, ItemsOf, TreeOf } from "../views/composite.js";
import type { LiveCallback, Stop } from "../views/view.js";
import type { ScopeOptions, ScopeRules } from "../views/scope.js";
import { itemsMatch } from "../views/def.js";
import type { Collection, LeaseOptions, Views, Wanted } from "../views/views.js";
import { Writes } from "../writes/writes.js";
import { checkKey, classOf, joinedKey } from "../schema/writing.js";

export type { Inspection, Meta, QuotaState } from "./parts.js";

/** An open session: the documents of one org, on this device and in step with the server. */
export class Session<S extends SchemaDeclaration = SchemaDeclaration, O extends Operations<S> = Operations<S>> {
  /** The current status, and its changes. */
  readonly status: Status;
  /** The operations that the server refused for good. Each waits to be amended, retried or discarded. */
  readonly refused: Refused;
  /** The record of the writes made on this device, until they are swept. */
  readonly journal: Journal;
  /** @internal Set by the devtools: it must not throw. */
  onNews: ((news: OperationNews) => void) | undefined;
  readonly #core: Core;
  readonly #schema: Schema<S>;
  readonly #status: LiveStatus;
  readonly #documents: Documents;
  readonly #views: Views;
  readonly #writes: Writes;
  readonly #supervisor: Supervisor;
  readonly #device: Device;
  readonly #forgetSecrets: () => void;
  readonly #entry: AccountEntry | undefined;
  readonly #files: Parts<S>["files"];
  #closing: Promise<void> | undefined;

  /** @internal */
  constructor(parts: Parts<S>) {
    this.#core = parts.core;
    this.#supervisor = parts.supervisor;
    this.#device = parts.device;
    this.#forgetSecrets = parts.forgetSecrets;
    this.#entry = parts.entry;
    this.#files = parts.files;
    this.#schema = parts.schema;
    this.status = this.#status = parts.status;
    this.#documents = parts.documents;
    this.#views = parts.views;
    this.#writes = new Writes(parts, (call) => this.guard(call));
    this.refused = this.#writes.refused;
    this.journal = Object.freeze({
      sweep: async (options = {}) => {
        const rule = this.guard(() => checkSweep(options));
        return JSON.parse(await this.#ask(() => this.#core.sweep(rule))) as Swept;
      },
    });
  }

  /** The account of the user, with its role. Undefined without `accounts`. */
  get identity(): Identity | undefined { return this.#entry?.identity; }

  /** @internal The classes of the schema, for the devtools. */
  get classes(): S { return this.#schema.classes; }

  /** @internal News of an operation. */
  heard(news: OperationNews): void {
    this.onNews?.(news);
    this.#writes.take(news);
  }

  /** @internal The core has closed, by itself or on request. */
  ended(by: Ending): void {
    this.#status.close(by);
    this.#views.endAll();
    // News of the last writes arrive in the same turn, after this call.
    queueMicrotask(() => {
      if (!this.#closing) this.#dispose();
    });
  }

  /** @internal The wasm died of a bug, and the core is now in another instance: every id has changed. */
  recovered(): void {
    this.#documents.renew();
    this.#views.recovered();
    this.#writes.recovered();
  }

  /** @internal The wasm died of a bug, and the core could not be recovered. */
  died(error: EscaleError): void {
    this.#closing ??= Promise.resolve();
    this.#dispose();
    this.#status.fail(error);
  }

  /**
   * Subscribes to the documents of a match. Calls back with those that are held, then at every change, until the function
   * that it returns is called. The subscription stays `keep` longer.
   */
  live<C extends ClassName<S>>(
    className: C,
    match: MatchOf<S[C]>,
    callback: LiveCallback<DocumentOf<S[C]>>,
    options?: LeaseOptions,
  ): Stop {
    checkCallback("live", callback);
    return this.guard(() => this.#views.live(this.#wanted(className, match), options, callback as LiveCallback<object>));
  }

  /** The documents of a match. Listening to them or waiting for them subscribes; the subscription stays `keep` longer. */
  collection<C extends ClassName<S>>(className: C, match: MatchOf<S[C]>, options?: LeaseOptions): Collection<DocumentOf<S[C]>> {
    const collection = this.guard(() => this.#views.collection(this.#wanted(className, match), options));
    return collection as Collection<DocumentOf<S[C]>>;
  }

  /** A document and its items of these classes, together. Listening or waiting subscribes, as in {@link collection}. */
  document<C extends ClassName<S>, I extends ItemsOf<S, C> = never>(
    className: C,
    key: KeyOf<S[C]>,
    { items = [], ...options }: { readonly items?: readonly I[] } & LeaseOptions = {},
  ): Composite<TreeOf<S, C, I>> {
    return this.guard(() => {
      const parts = checkKey(key);
      const all = items.map((item) => {
        const declared = this.classes[item as string];
        if (declared?.in !== className) throw raise("bad_option", `items: class ${item} is not \`in\` ${className}`);
        return { className: item, def: this.#def(item, itemsMatch(declared, parts)) };
      });
      return this.#views.composite([this.#wanted(className, { key: parts }), ...all], options);
    }) as Composite<TreeOf<S, C, I>>;
  }

  /**
   * Subscribes to all that the held documents lead to by these rules, with no network too. A subscription ends once no
   * document leads to it any more, unless somebody else listens to it or keeps it for ever. With `exclusive` all other
   * subscriptions to those classes end, too. After a stop, they stay as long as any other.
   */
  scope(rules: ScopeRules<S>, { exclusive = false }: ScopeOptions = {}): Stop {
    const read = (className: string, text: string): Promise<object[]> => this.#load(className, () => this.#core.query(className, text));
    const defOf = (className: string, match: unknown): string => this.guard(() => this.#def(className, match));
    return this.guard(() => this.#views.scope(rules, { read, defOf, isExclusive: exclusive }));
  }

  /** The document of that key, if the session holds it. */
  async get<C extends ClassName<S>>(
    className: C,
    key: KeyOf<S[C]>,
  ): Promise<DocumentOf<S[C]> | undefined> {
    const find = (): number => {
      const parts = checkKey(key);
      return this.#core.find(this.#checkedClass(className), joinedKey(parts), parts.length);
    };
    const held = this.#getAtOnce(className, key, find);
    const [document] = held ? [held] : await this.#load(className, () => [find()].filter((id) => id !== 0));
    return document as DocumentOf<S[C]> | undefined;
  }

  /** Starts a query over the documents of a class that the session holds, by its indexes. */
  query<C extends ClassName<S>>(className: C): Query<S[C]> {
    return new Query<S[C]>(this.guard(() => this.#sourceOf(className)));
  }

  /** The metadata of a document of this session. Undefined once another version has replaced it, or it has left. */
  meta(document: object): Meta | undefined {
    const id = this.#documents.idOf(document);
    return id === undefined ? undefined : this.guard(() => this.#core.meta(id));
  }

  /** Creates or replaces a document; restores a deleted one. */
  put<C extends ClassName<S>>(className: C, data: DataOf<S[C]>, options?: WriteOptions): Operation {
    return this.#writes.put(className, data, options);
  }

  /** Changes some properties of a document. A property set to undefined is removed. */
  patch<C extends ClassName<S>>(
    className: C,
    key: KeyOf<S[C]>,
    changes: ChangesOf<S[C]>,
    options?: PatchOptions<S[C]>,
  ): Operation {
    return this.#writes.patch(className, key, changes, options);
  }

  /** Deletes a document. */
  delete<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>, options?: WriteOptions): Operation {
    return this.#writes.delete(className, key, options);
  }

  /** The files of the session. Loads their module at the first call; needs the option `files` of `open`. */
  async files(): Promise<Files<S>> {
    return this.#ask(async () => {
      if (this.#files) return (await this.#files.load()).files;
      throw raise("bad_option", 'files: open the session with files: () => import("escale/files")');
    });
  }

  /** Runs an application-defined operation. */
  run<N extends OperationName<O>>(name: N, args: ArgsOf<O, N>, options?: RunOptions<S>): Operation {
    return this.#writes.run(name, args, options);
  }

  /** Writes several documents as one operation: the server executes all of it, or nothing. */
  batch(write: (tx: Batch<S, O>) => void, options?: OrderOptions): Operation {
    return this.#writes.batch(write, options);
  }

  /** The operations that wait for the server, in order. Refused ones are in {@link refused}. */
  pending(): readonly PendingOperation[] {
    return this.guard(() => this.#writes.pending());
  }

  /** Sends the operations again that a restriction of the account has blocked: once `status.restriction` is lower. */
  retryBlocked(): readonly Operation[] {
    return this.refused.value.filter(({ error }) => error.code === "blocked").map((one) => one.retry());
  }

  /** The server's counter of the org, or of a value that documents are counted by. Null if the account may not read it. */
  async quota(of?: string): Promise<QuotaState | null> {
    if (this.#status.mode === "avion") throw notLoaded("avion");
    return ((await this.#writes.ask("quota.get", of === undefined ? {} : { of })) ?? null) as QuotaState | null;
  }

  /** Ids of operations that the server had accepted, but lost when it was restored from a backup. */
  lostByServer(): readonly string[] {
    return this.guard(() => this.#core.lostByServer());
  }

  /** The writes of a document on this device, oldest first, as far as the journal still holds them. */
  async history<C extends ClassName<S>>(
    className: C,
    key: KeyOf<S[C]>,
  ): Promise<readonly PastState<DocumentOf<S[C]>>[]> {
    const text = await this.#ask(() => this.#core.history(this.#checkedClass(className), checkKey(key)));
    return this.guard(() =>
      (JSON.parse(text) as PastAction[]).map(({ data, ...past }) => {
        const doc = data && documentOf(this.#schema, className, reviveMap(data));
        return Object.freeze({ ...past, doc: doc as DocumentOf<S[C]> | null });
      }),
    );
  }

  /** Ends a subscription. Documents that no other subscription holds leave the memory and the device. */
  unsubscribe<C extends ClassName<S>>(className: C, match: MatchOf<S[C]>): void;
  /** Ends the subscription to a def, as {@link subscriptions} lists it. */
  unsubscribe(def: string): void;
  unsubscribe(classOrDef: string, match?: unknown): void {
    this.guard(() => {
      const def = match === undefined ? classOrDef : this.#def(classOrDef, match);
      this.leave(def);
      this.#views.end(def);
    });
  }

  /** @internal Ends the subscription to a def; its views stay. */
  leave(def: string): void {
    this.#core.unsubscribe(def);
    this.#device.unsubscribed(def);
  }

  /** @internal Whether a list or a live query is about to read or to call back: `escale/testing` waits for it. */
  get isReading(): boolean {
    return this.#views.areReading;
  }

  /** The defs subscribed to, those of earlier openings included. */
  subscriptions(): string[] {
    return this.guard(() => this.#core.subscriptions());
  }

  /** Changes the mode, in every tab that has the store open. */
  async setMode(mode: Mode): Promise<void> {
    await this.#ask(() => this.#core.setMode(checkMode(mode)));
  }

  /** Wraps the device's key under another passphrase. With `accounts` it needs the network: the other devices then ask for the new one. */
  async changePassphrase(old: string, next: string): Promise<void> {
    checkPassphrase("old", old);
    checkPassphrase("next", next);
    const entry = this.#entry;
    if (entry) return this.#ask(() => entry.changePassphrase(old, next));
    await this.#ask(() => this.#onDevice(() => this.#core.changePassphrase(old, next)));
  }

  /** Goes on after `passphrase_changed`: signs in with the account's new passphrase. Needs `accounts` and the network. */
  async unlock(passphrase: string): Promise<void> {
    checkPassphrase("passphrase", passphrase);
    await this.#ask(async () => this.#entry?.unlock(passphrase));
  }

  /**
   * Resolves once everything that the session holds is on the device, and so available without a network. Fails with
   * `storage_full`, `storage_failed` or `storage_closed` while the device cannot be written. In incognito it resolves
   * at once.
   */
  async flush(): Promise<void> {
    await this.#ask(() => this.#onDevice(() => this.#core.flush()));
  }

  /**
   * Asks the browser to keep the stored data until the user deletes it. Otherwise browsers evict the data of sites that
   * were not visited for a while, with operations that wait. Never fails because of the browser's answer.
   */
  async requestPersistence(): Promise<Persistence> {
    return this.#ask(async () => (this.#status.mode === "incognito" ? "unsupported" : requestPersistence()));
  }

  /** How much of the browser's storage this origin uses, and whether the browser keeps it. */
  async usage(): Promise<StorageUsage> { return this.#ask(usage); }

  /**
   * Forgets the key and all documents in memory, and closes the session, in every tab that has the store open. The
   * stored data stays on the device. While the device refuses to open, this ends the calling tab's session only.
   */
  lock(): Promise<void> {
    return this.end("locked");
  }

  /**
   * Closes the session, in every tab, and deletes everything that the device stores for this org and account. Fails with
   * `not_saved` while operations or local documents would be lost, unless `drafts` is `"delete"`.
   */
  async wipe({ drafts }: { readonly drafts?: "delete" } = {}): Promise<void> {
    const left = (): number[] => (drafts === "delete" ? [] : this.#onDevice(() => [this.#writes.left(), this.#status.drafts]));
    const [waiting = 0, local = 0] = await this.#askTwice(() => Promise.resolve(left()));
    if (waiting + local > 0) throw raise("not_saved", `operations: ${waiting}, drafts: ${local}`);
    await this.end("wiped");
  }

  /** Closes the session. Calling it again changes nothing. */
  close(): Promise<void> {
    return this.end("closed");
  }

  /** The stored records, at most `limit` of them, and the contents of memory, for inspectors. */
  async inspect({ limit = 100 }: { limit?: number } = {}): Promise<Inspection> {
    const store = await this.#ask(() => this.#core.inspect(limit));
    return { store, memory: this.guard(() => this.#core.memory()) };
  }

  /** The document of a key, if it can be given without waiting. Errors are ignored: the slow path throws them again. */
  #getAtOnce(className: string, key: unknown, find: () => number): object | undefined {
    if (this.#closing || !this.#supervisor.isReady) return undefined;
    try {
      const document = this.#documents.at(className, checkKey(key));
      if (document) return document;
      const held = this.#documents.held(find());
      if (held) this.#documents.found(className, held);
      return held;
    } catch {
      return undefined;
    }
  }

  #sourceOf(className: string): QuerySource {
    const declared = classOf(this.#schema, className);
    const docs = async (parts: QueryParts): Promise<readonly object[]> => {
      const documents = await this.#load(className, () => this.#core.query(className, textOf(parts)));
      const isOrdered = parts.order !== undefined || parts.limit !== undefined || parts.after !== undefined;
      return Object.freeze(isOrdered ? documents : documents.sort(byKey(declared.key)));
    };
    const count = async (parts: QueryParts): Promise<number> =>
      (await this.#askTwice(async () => this.#core.query(className, textOf(parts)))).length;
    const state = (parts: QueryParts): QueryState => this.guard(() => this.#views.stateOf(className, parts.in));
    const start = <T>(parts: QueryParts, question: Omit<LiveQuestion<T>, "onError" | "state">): Stop =>
      this.guard(() => this.#views.queries.start(className, textOf(parts), { ...question, state: () => this.#views.stateOf(className, parts.in) }));
    return {
      declared, docs, count, state,
      def: (match) => this.guard(() => this.#def(className, match)),
      live: (parts, callback) => start(parts, { ask: () => orNone(docs(parts), []), isSame: isSameList, callback }),
      liveCount: (parts, callback) => start(parts, { ask: () => orNone(count(parts), 0), isSame: Object.is, callback }),
    };
  }

  /** Reads the documents of the ids that `ask` gives, in their order. Asks again if a change made ids invalid during the read. */
  async #load(className: string, ask: () => ArrayLike<number> | Promise<ArrayLike<number>>): Promise<object[]> {
    for (;;) {
      // After an instance died, the next one is asked for its own ids.
      const { ids, loaded } = await this.#askTwice(async () => {
        const ids = Array.from(await ask());
        return { ids, loaded: await this.#documents.load(className, ids) };
      });
      if (!loaded.overtaken) return ids.flatMap((id) => loaded.documents.get(id) ?? []);
    }
  }

  #def(className: string, match: unknown): string {
    return this.#core.def(this.#checkedClass(className), JSON.stringify(checkMatch(match)));
  }

  #wanted(className: string, match: unknown): Wanted {
    return { className, def: this.#def(className, match) };
  }

  #checkedClass(className: string): string {
    classOf(this.#schema, className);
    return className;
  }

  /** Makes a call that needs the device. Fails while the device refuses to open and everything is in memory only. */
  #onDevice<T>(call: () => T): T {
    this.#device.check();
    return call();
  }

  /** Like {@link #ask}, but repeats a call once, in the next instance, if the death of an instance cut it short. */
  async #askTwice<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await this.guard(call);
    } catch (error) {
      if (this.#errorOf(error).code !== "panicked") throw this.#errorOf(error);
      await this.#supervisor.settled();
      return this.#ask(call);
    }
  }

  async #ask<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await this.guard(call);
    } catch (error) {
      throw this.#errorOf(error);
    }
  }

  /** @internal Makes a call of the core, or throws if the session is over. */
  guard<T>(call: () => T): T {
    if (this.#closing || this.#status.phase === "closed") throw this.#status.over();
    try {
      return call();
    } catch (error) {
      throw this.#errorOf(error);
    }
  }

  /** The error for the caller. After a panic the core cannot be trusted: another one replaces it, or the session ends. */
  #errorOf(thrown: unknown): EscaleError {
    const error = toEscaleError(thrown);
    if (error.code === "panicked" && this.#supervisor.diesWithInstance) this.died(error);
    return error;
  }

  /** @internal Ends the session. A second call waits for the same end. */
  end(word: Ending): Promise<void> {
    this.#supervisor.end();
    this.#device.end();
    this.#closing ??= (async () => {
      this.#views.endAll();
      let reason: Ending = "closed";
      try {
        if (this.#status.phase === "closed") return;
        await this.#core.end(word);
        if (word === "wiped") await this.#device.wipe().then(() => this.#entry?.wipe());
        reason = word;
      } catch (error) {
        throw toEscaleError(error);
      } finally {
        this.#dispose(reason);
      }
    })();
    return this.#closing;
  }

  #dispose(word: Ending = "closed"): void {
    this.#files?.end();
    this.#supervisor.free();
    this.#device.end();
    this.#forgetSecrets();
    this.#views.endAll();
    this.#writes.end();
    this.#status.close(word);
  }
}
