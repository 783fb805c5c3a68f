import type { Core } from "./core.js";
import type { Documents } from "./documents.js";
import { EscaleError, raise, toEscaleError } from "./errors.js";
import { checkMode, checkPassphrase } from "./options.js";
import { byKey } from "./order.js";
import { Query } from "./query.js";
import type { Schema } from "./schema.js";
import type { ClassName, DocumentOf, KeyOf, MatchOf, SchemaDeclaration } from "./schema-types.js";
import type { LiveStatus, Mode, Status } from "./status.js";
import { isMap } from "./values.js";
import type { LiveCallback, Stop } from "./view.js";
import type { Collection, Views } from "./views.js";

/** What is known of a document besides its data. */
export interface Meta {
  /** The version of the document. */
  readonly v: number;
  /** Whether an operation on it waits for the server. */
  readonly pending: boolean;
  /** Whether it is a tombstone. */
  readonly deleted: boolean;
}

/** What rests on the device and what is in memory: for inspectors. */
export interface Inspection {
  readonly store: Awaited<ReturnType<Core["inspect"]>>;
  readonly memory: ReturnType<Core["memory"]>;
}

/** What a session is made of. */
export interface Parts<S extends SchemaDeclaration> {
  core: Core;
  schema: Schema<S>;
  status: LiveStatus;
  documents: Documents;
  views: Views;
}

/** An open session: the documents of one org, on this device and in step with the server. */
export class Session<S extends SchemaDeclaration = SchemaDeclaration> {
  /** The status now, and its changes. */
  readonly status: Status;
  readonly #core: Core;
  readonly #schema: Schema<S>;
  readonly #status: LiveStatus;
  readonly #documents: Documents;
  readonly #views: Views;
  #closing: Promise<void> | undefined;

  /** @internal */
  constructor(parts: Parts<S>) {
    this.#core = parts.core;
    this.#schema = parts.schema;
    this.status = this.#status = parts.status;
    this.#documents = parts.documents;
    this.#views = parts.views;
  }

  /**
   * Subscribes to the documents of a match, and calls back with those that are held, then at every change. What it
   * returns stops the callback; the subscription stays until {@link unsubscribe}.
   */
  live<C extends ClassName<S>>(
    className: C,
    match: MatchOf<S[C]>,
    callback: LiveCallback<DocumentOf<S[C]>>,
  ): Stop {
    checkCallback("live", callback);
    return this.#guard(() =>
      this.#views.live(className, this.#def(className, match), callback as LiveCallback<object>),
    );
  }

  /** Subscribes to the documents of a match, and keeps them at hand. */
  collection<C extends ClassName<S>>(className: C, match: MatchOf<S[C]>): Collection<DocumentOf<S[C]>> {
    const collection = this.#guard(() => this.#views.collection(className, this.#def(className, match)));
    return collection as Collection<DocumentOf<S[C]>>;
  }

  /** The document of that key, if the session holds it. */
  async get<C extends ClassName<S>>(
    className: C,
    key: KeyOf<S[C]>,
  ): Promise<DocumentOf<S[C]> | undefined> {
    const [document] = await this.#load(className, () => {
      const id = this.#core.find(this.#known(className), checkKey(key));
      return id === 0 ? [] : [id];
    });
    return document as DocumentOf<S[C]> | undefined;
  }

  /** Asks the documents that the session holds of a class, by its indexes. */
  query<C extends ClassName<S>>(className: C): Query<S[C]> {
    this.#guard(() => this.#known(className));
    return new Query<S[C]>(async (predicates) => {
      const documents = await this.#load(className, () => this.#core.query(className, predicates));
      return Object.freeze(documents.sort(byKey((this.#schema.classes as SchemaDeclaration)[className]?.key ?? [])));
    });
  }

  /** What is known of a document of this session; undefined once another version took its place, or it left. */
  meta(document: object): Meta | undefined {
    const id = this.#documents.idOf(document);
    return id === undefined ? undefined : this.#guard(() => this.#core.meta(id));
  }

  /** Ends a subscription: what no other one holds leaves the memory and the device. */
  unsubscribe<C extends ClassName<S>>(className: C, match: MatchOf<S[C]>): void;
  /** Ends the subscription to a def, as {@link subscriptions} lists it. */
  unsubscribe(def: string): void;
  unsubscribe(classOrDef: string, match?: unknown): void {
    this.#guard(() => {
      const def = match === undefined ? classOrDef : this.#def(classOrDef, match);
      this.#core.unsubscribe(def);
      this.#views.end(def);
    });
  }

  /** The defs that are subscribed to, those of earlier openings included. */
  subscriptions(): string[] {
    return this.#guard(() => this.#core.subscriptions());
  }

  /** Goes to another mode. */
  async setMode(mode: Mode): Promise<void> {
    await this.#ask(() => this.#core.setMode(checkMode(mode)));
  }

  /** Wraps the device's key under another passphrase. */
  async changePassphrase(old: string, next: string): Promise<void> {
    checkPassphrase("old", old);
    checkPassphrase("next", next);
    await this.#ask(() => this.#core.changePassphrase(old, next));
  }

  /** Forgets the key and all documents in memory; the session is closed, what rests on the device stays. */
  lock(): Promise<void> {
    return this.#finish(() => this.#core.lock());
  }

  /** Closes the session and deletes from the device all that rests there for this org and account. */
  async wipe(): Promise<void> {
    this.#guard(() => {});
    await this.#finish(() => this.#core.wipe());
  }

  /** Closes the session; doing it again changes nothing. */
  close(): Promise<void> {
    return this.#finish(() => this.#core.close());
  }

  /** What rests on the device, at most `limit` records of it, and what is in memory: for inspectors. */
  async inspect({ limit = 100 }: { limit?: number } = {}): Promise<Inspection> {
    const store = await this.#ask(() => this.#core.inspect(limit));
    return { store, memory: this.#guard(() => this.#core.memory()) };
  }

  /** Reads the documents of the ids that `ask` gives, and asks again when a change overtook the reading. */
  async #load(className: string, ask: () => ArrayLike<number> | Promise<ArrayLike<number>>): Promise<object[]> {
    for (;;) {
      const loaded = await this.#ask(async () => this.#documents.load(className, Array.from(await ask())));
      if (!loaded.overtaken) return [...loaded.documents.values()];
    }
  }

  #def(className: string, match: unknown): string {
    if (!isMap(match)) throw raise("bad_option", "match: must be {}, { key: [..] } or the properties of a collection");
    return this.#core.def(this.#known(className), JSON.stringify(match));
  }

  #known(className: string): string {
    if (!Object.hasOwn(this.#schema.classes, className)) {
      throw raise("unknown_class", "the schema has no class by that name");
    }
    return className;
  }

  async #ask<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await this.#guard(call);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  #guard<T>(call: () => T): T {
    if (this.#closing || this.#status.phase === "closed") throw raise("closed", "the session is closed");
    try {
      return call();
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** The error for the caller; after a panic nothing of the core can be trusted, and the session ends. */
  #failed(thrown: unknown): EscaleError {
    const error = toEscaleError(thrown);
    if (error.code === "panicked") {
      this.#closing ??= Promise.resolve();
      this.#end();
      this.#status.fail(error);
    }
    return error;
  }

  #finish(call: () => Promise<void>): Promise<void> {
    this.#closing ??= (async () => {
      this.#views.endAll();
      try {
        if (this.#status.phase !== "closed") await call();
      } catch (error) {
        throw toEscaleError(error);
      } finally {
        this.#end();
      }
    })();
    return this.#closing;
  }

  #end(): void {
    this.#views.endAll();
    this.#status.close();
  }
}

function checkCallback(method: string, callback: unknown): void {
  if (typeof callback !== "function") throw raise("bad_option", `${method}: the callback must be a function`);
}

function checkKey(key: unknown): string[] {
  if (!Array.isArray(key) || !key.every((part) => typeof part === "string")) {
    throw raise("bad_key", "a key is a list of strings, one for each key property");
  }
  return key;
}
