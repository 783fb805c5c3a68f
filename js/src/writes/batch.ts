/** `session.batch`: collects the writes of a function, and makes them one operation. */

import { raise } from "../base/errors.js";
import type {
  ArgsOf,
  ChangesOf,
  DataOf,
  OperationName,
  PatchOptions,
  RunOptions,
  Within,
  WriteOptions,
} from "./operation-types.js";
import type { Request, Requests } from "./requests.js";
import type { ClassName, KeyOf, SchemaDeclaration } from "../schema/schema-types.js";
import { checkOptions, type WriteRequest } from "./write-options.js";

/**
 * Writes that the server executes as one operation: all of them, or none. The session issues it when the function ends.
 */
export interface Batch<S extends SchemaDeclaration, O> {
  /** Creates or replaces a document; restores a deleted one. */
  put<C extends ClassName<S>>(className: C, data: DataOf<S[C]>, options?: Within<WriteOptions>): void;
  /** Changes some properties of a document. */
  patch<C extends ClassName<S>>(
    className: C,
    key: KeyOf<S[C]>,
    changes: ChangesOf<S[C]>,
    options?: Within<PatchOptions<S[C]>>,
  ): void;
  /** Deletes a document. */
  delete<C extends ClassName<S>>(className: C, key: KeyOf<S[C]>, options?: Within<WriteOptions>): void;
  /** Runs an application-defined operation. */
  run<N extends OperationName<O>>(name: N, args: ArgsOf<O, N>, options?: Within<RunOptions<S>>): void;
}

/** Collects the writes of a batch's function. */
export class BatchWriter {
  readonly #requests: Requests;
  readonly #guard: <T>(call: () => T) => T;
  readonly #collected: Request[] = [];
  readonly #touches: unknown[] = [];
  /**
   * Documents that this batch has already written whole. They are of the current release, so a later patch applies to
   * them directly.
   */
  readonly #renewed = new Set<string>();
  #isOver = false;

  constructor(requests: Requests, guard: <T>(call: () => T) => T) {
    this.#requests = requests;
    this.#guard = guard;
  }

  /** Runs the function. Gives one operation that holds all its writes, and the documents that they touch. */
  collect(write: (tx: Batch<SchemaDeclaration, object>) => unknown): { request: Request; touches: unknown[] } {
    let result: unknown;
    try {
      result = write(this.#writer());
    } finally {
      this.#isOver = true;
    }
    if (result instanceof Promise) throw raise("bad_option", "batch: the function must not be async");
    if (this.#collected.length === 0) throw raise("bad_option", "batch: the function wrote nothing");
    return { request: { name: "batch", args: { ops: this.#collected } }, touches: this.#touches };
  }

  #writer(): Batch<SchemaDeclaration, object> {
    return Object.freeze({
      put: (className: string, data: unknown, options: WriteRequest = {}) =>
        this.#add(() => this.#requests.put(className, data, checkOptions("put", options, true))),
      patch: (className: string, key: unknown, changes: unknown, options: WriteRequest = {}) =>
        this.#add(() => this.#requests.patch(className, key, changes, checkOptions("patch", options, true), this.#renewed)),
      delete: (className: string, key: unknown, options: WriteRequest = {}) =>
        this.#add(() => this.#requests.delete(className, key, checkOptions("delete", options, true))),
      run: (name: unknown, args: unknown, options: WriteRequest = {}) => {
        const { touches } = this.#guard(() => checkOptions("run", options, true));
        this.#add(() => this.#requests.run(name, args));
        if (Array.isArray(touches)) this.#touches.push(...(touches as unknown[]));
      },
    });
  }

  #add(make: () => Request): void {
    if (this.#isOver) throw raise("bad_option", "batch: its function has ended");
    const request = this.#guard(make);
    const whole = this.#requests.writtenWhole(request);
    if (whole !== undefined) this.#renewed.add(whole);
    this.#collected.push(request);
  }
}
