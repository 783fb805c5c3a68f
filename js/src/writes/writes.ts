/** The writes of a session: issues operations, tracks them, and lists those that wait or were refused. */

import { BatchWriter, type Batch } from "./batch.js";
import type { Core, CoreOperation, OperationNews } from "../wasm/core.js";
import type { Documents } from "../views/documents.js";
import { raise } from "../base/errors.js";
import type { Operation, OperationArgs, PendingOperation, Refused } from "./operation-types.js";
import { LiveRefused } from "./refused.js";
import { amendment, Requests, type Request } from "./requests.js";
import type { Schema } from "../schema/schema.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import { Tracker } from "./tracker.js";
import { freezeDeep, reviveMap } from "../schema/raw.js";
import { checkOptions, type WriteCall, type WriteRequest } from "./write-options.js";

/** The part of the core that writes use. */
type WritingCore = Pick<Core, "write" | "amend" | "discard" | "operations" | "find" | "meta">;

/**
 * The parts that {@link Writes} needs. `resolvesConflicts` tells whether the session resolves conflicts of a class
 * itself.
 */
interface WritesOf {
  core: WritingCore;
  schema: Schema;
  documents: Documents;
  resolvesConflicts: (className: string) => boolean;
}

/** The operations of a session: issues them, and tracks them to their end. */
export class Writes {
  readonly #core: WritingCore;
  readonly #guard: <T>(call: () => T) => T;
  readonly #documents: Documents;
  readonly #requests: Requests;
  readonly #tracker = new Tracker();
  readonly #refused: LiveRefused;

  /** `guard` makes a call of the core, or throws if the session is over. */
  constructor({ core, schema, documents, resolvesConflicts }: WritesOf, guard: <T>(call: () => T) => T) {
    this.#core = core;
    this.#guard = guard;
    this.#documents = documents;
    this.#requests = new Requests({ core, schema, documents, resolvesConflicts }, (id) => this.#tracker.current(id));
    this.#refused = new LiveRefused(() => guard(() => this.#operations()), schema, {
      amend: (id, args) => this.#amend(id, args),
      discard: (id, error) => {
        guard(() => this.#core.discard(id));
        documents.forgetKeys();
        this.#tracker.fail(id, error);
        this.#refused.changed();
      },
    });
  }

  get refused(): Refused {
    return this.#refused;
  }

  put(className: string, data: unknown, options: WriteRequest = {}): Operation {
    return this.#issue("put", options, (options) => this.#requests.put(className, data, options));
  }

  patch(className: string, key: unknown, changes: unknown, options: WriteRequest = {}): Operation {
    return this.#issue("patch", options, (options) => this.#requests.patch(className, key, changes, options));
  }

  delete(className: string, key: unknown, options: WriteRequest = {}): Operation {
    return this.#issue("delete", options, (options) => this.#requests.delete(className, key, options));
  }

  run(name: unknown, args: unknown, options: WriteRequest = {}): Operation {
    return this.#issue("run", options, () => this.#requests.run(name, args));
  }

  /** Asks the server by an operation. A refused one is discarded: nobody has to decide about a question. */
  async ask(name: string, args: object): Promise<unknown> {
    const { id, accepted } = this.run(name, args);
    try {
      return (await accepted).value;
    } catch (error) {
      this.#refused.value.find((one) => one.id === id)?.discard();
      throw error;
    }
  }

  batch(write: (tx: Batch<SchemaDeclaration, object>) => unknown, options: WriteRequest = {}): Operation {
    if (typeof write !== "function") throw raise("bad_option", "batch takes a function");
    const { after } = checkOptions("batch", options);
    // Errors that the function throws belong to the application, and are passed on unchanged.
    const { request, touches } = new BatchWriter(this.#requests, this.#guard).collect(write);
    return this.#issue("run", { after, touches }, () => request);
  }

  /** The operations that wait for the server, in order. */
  pending(): PendingOperation[] {
    const waiting = this.#operations().filter(({ state }) => state !== "accepted" && state !== "refused");
    return waiting.map(({ id, name, args, at, state }) =>
      Object.freeze({
        id,
        name,
        args: freezeDeep(reviveMap(args)) as OperationArgs,
        at,
        state: state as PendingOperation["state"],
      }),
    );
  }

  /** How many operations are not accepted: those that wait, and those that were refused. */
  left(): number {
    return this.#operations().filter(({ state }) => state !== "accepted").length;
  }

  /** Takes news of the core. */
  take(news: OperationNews): void {
    this.#documents.forgetKeys();
    this.#tracker.take(news);
    if (news.kind === "refused" || (news.kind !== "saved" && this.#refused.has(news.id))) this.#refused.changed();
  }

  /** Another core is in use: it has the saved operations, and no others. */
  recovered(): void {
    this.#tracker.recovered(this.#operations());
    this.#refused.changed();
  }

  /** The session is over. */
  end(): void {
    this.#tracker.end();
    this.#refused.end();
  }

  #issue(call: WriteCall, given: WriteRequest, make: (options: WriteRequest) => Request): Operation {
    return this.#guard(() => {
      const options = checkOptions(call, given);
      const order = this.#requests.order(options);
      const { name, args } = make(options);
      const text = JSON.stringify(args);
      const operation = this.#tracker.issue(() => this.#core.write(name, text, order));
      this.#documents.forgetKeys();
      return operation;
    });
  }

  #amend(id: string, args: OperationArgs | undefined): Operation {
    return this.#guard(() => {
      const text = amendment(args);
      const operation = this.#tracker.issue(() => this.#core.amend(id, text), id);
      this.#documents.forgetKeys();
      this.#refused.changed();
      return operation;
    });
  }

  #operations(): CoreOperation[] {
    return JSON.parse(this.#core.operations()) as CoreOperation[];
  }
}
