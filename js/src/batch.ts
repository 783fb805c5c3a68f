import { raise } from "./errors.js";
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
import type { ClassName, KeyOf, SchemaDeclaration } from "./schema-types.js";
import { checkOptions, type WriteRequest } from "./write-options.js";

/** Writes that the server executes as one: all of them, or none. They are issued when the function ends. */
export interface Batch<S extends SchemaDeclaration, O> {
  /** Creates or replaces a document; restores it where it is deleted. */
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
  /** Runs an operation of the application's own. */
  run<N extends OperationName<O>>(name: N, args: ArgsOf<O, N>, options?: Within<RunOptions<S>>): void;
}

/** Collects what a function writes. */
export class BatchWriter {
  readonly #requests: Requests;
  readonly #guard: <T>(call: () => T) => T;
  readonly #collected: Request[] = [];
  readonly #touches: unknown[] = [];
  /** What was written whole so far: it is of the present release from there on. */
  readonly #renewed = new Set<string>();
  #isOver = false;

  constructor(requests: Requests, guard: <T>(call: () => T) => T) {
    this.#requests = requests;
    this.#guard = guard;
  }

  /** Runs the function; gives the one operation of all that it wrote, and what they touch. */
  collect(write: (tx: Batch<SchemaDeclaration, object>) => unknown): { request: Request; touches: unknown[] } {
    let result: unknown;
    try {
      result = write(this.#writer());
    } finally {
      this.#isOver = true;
    }
    if (result instanceof Promise) throw raise("bad_option", "batch: the function must not be async");
    if (this.#collected.length === 0) throw raise("bad_option", "batch: the function wrote nothing");
    const ops = this.#collected.map(({ name, args }) => ({ name, args }));
    return { request: { name: "batch", args: { ops } }, touches: this.#touches };
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
    if (this.#isOver) throw raise("bad_option", "batch: its function has ended, nothing can be added");
    const request = this.#guard(make);
    const whole = this.#requests.writtenWhole(request);
    if (whole !== undefined) this.#renewed.add(whole);
    this.#collected.push(request);
  }
}
