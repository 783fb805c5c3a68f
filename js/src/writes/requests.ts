/** Builds operations from the calls of the application, and refuses those that cannot be sent. */

import type { Core } from "../wasm/core.js";
import type { Documents } from "../views/documents.js";
import { encodeMap } from "../schema/encode.js";
import { raise } from "../base/errors.js";
import { checkUnicode } from "../base/unicode.js";
import type { OperationRef } from "./operation-types.js";
import type { Schema } from "../schema/schema.js";
import { isMap, type Raw } from "../schema/raw.js";
import type { WriteRequest } from "./write-options.js";
import { checkKey, checkValues, classOf, encodeArgs, encodeChanges, encodeDocument, joinedKey, keyOf, patched } from "../schema/writing.js";

/** An operation as it is sent, alone or within a batch. */
export interface Request {
  name: string;
  args: Raw;
}

/** The names of the operations that every server has. */
export const BUILT_IN: readonly string[] = ["doc.put", "doc.patch", "doc.delete", "batch"];
/** Characters of an operation's name: the bound of `src/limits.rs`. */
const NAME_CHARS_MAX = 64;

/**
 * The parts that {@link Requests} needs. `resolvesConflicts` tells whether the session resolves conflicts of a class
 * itself.
 */
interface RequestsOf {
  core: Pick<Core, "find" | "meta">;
  schema: Schema;
  documents: Pick<Documents, "migrated">;
  resolvesConflicts: (className: string) => boolean;
}

/** Builds operations. One that cannot be sent is refused before anything is written. */
export class Requests {
  readonly #core: Pick<Core, "find" | "meta">;
  readonly #schema: Schema;
  readonly #documents: Pick<Documents, "migrated">;
  readonly #resolvesConflicts: (className: string) => boolean;
  readonly #current: (id: string) => string;

  /** `current` gives the operation that has replaced another one. */
  constructor({ core, schema, documents, resolvesConflicts }: RequestsOf, current: (id: string) => string) {
    this.#core = core;
    this.#schema = schema;
    this.#documents = documents;
    this.#resolvesConflicts = resolvesConflicts;
    this.#current = current;
  }

  put(className: string, data: unknown, options: WriteRequest): Request {
    const encoded = encodeDocument(this.#schema, className, data);
    return { name: "doc.put", args: { class: className, data: encoded, ...this.#ifVersion(options) } };
  }

  /** `renewed` holds the keys of the documents that the batch has already written whole. */
  patch(className: string, key: unknown, changes: unknown, options: WriteRequest, renewed?: ReadonlySet<string>): Request {
    classOf(this.#schema, className);
    const parts = checkKey(key);
    const patch = encodeChanges(changes, options.unset);
    checkValues(this.#schema, className, changes as object, patch.unset);
    const ifVersion = this.#ifVersion(options);
    const id = this.#core.find(className, joinedKey(parts), parts.length);
    const isRenewed = renewed?.has(keyText(className, parts)) ?? false;
    const migrated = id === 0 || isRenewed ? undefined : this.#documents.migrated(id);
    if (migrated === undefined) {
      const unset = patch.unset.length > 0 ? { unset: patch.unset } : {};
      return { name: "doc.patch", args: { class: className, key: parts, set: patch.set, ...unset, ...ifVersion } };
    }
    // The stored data is of an older release, and a patch would mix two releases. So the whole document is written,
    // with the version that was read as a condition. If the session resolves conflicts of the class, it adds that
    // condition itself, and resolves the conflict. A local document has no version.
    const data = encodeDocument(this.#schema, className, patched(migrated as Raw, { ...patch, set: { ...(changes as Raw) } }));
    const meta = this.#core.meta(id);
    const read = meta?.v && !meta.pending && !this.#resolvesConflicts(className) ? { ifVersion: meta.v } : {};
    return { name: "doc.put", args: { class: className, data, ...read, ...ifVersion } };
  }

  delete(className: string, key: unknown, options: WriteRequest): Request {
    classOf(this.#schema, className);
    return { name: "doc.delete", args: { class: className, key: checkKey(key), ...this.#ifVersion(options) } };
  }

  run(name: unknown, args: unknown): Request {
    if (typeof name !== "string" || name === "" || name.length > NAME_CHARS_MAX) {
      throw raise("bad_option", `run: an operation's name has 1 to ${NAME_CHARS_MAX} characters`);
    }
    if (BUILT_IN.includes(name)) throw raise("bad_option", `run: ${name} has a method of its own`);
    return { name, args: encodeArgs(args) };
  }

  /** A text that names the document that a request writes whole. A later patch in its batch then knows. */
  writtenWhole({ name, args }: Request): string | undefined {
    if (name !== "doc.put") return undefined;
    const [className, data] = [args["class"] as string, args["data"] as Raw];
    return keyText(className, keyOf(classOf(this.#schema, className), data));
  }

  /** The options that the core receives in addition to the arguments, as JSON. */
  order({ after, touches }: WriteRequest): string {
    return JSON.stringify({ ...this.#after(after), ...this.#touches(touches) });
  }

  #after(after: unknown): { after?: string[] } {
    if (after === undefined) return {};
    const refs = (Array.isArray(after) ? after : [after]) as unknown[];
    return { after: refs.map((ref) => this.#current(idOf("after", ref))) };
  }

  #touches(touches: unknown): { touches?: [string, string[]][] } {
    if (touches === undefined) return {};
    if (!Array.isArray(touches) || !touches.every(Array.isArray)) throw raise("bad_option", "touches: must be a list of [class, key]");
    return {
      touches: (touches as [string, unknown][]).map(([className, key]) => {
        classOf(this.#schema, className);
        return [className, checkKey(key)];
      }),
    };
  }

  #ifVersion({ ifVersion }: WriteRequest): { ifVersion?: number | { op: string } } {
    if (ifVersion === undefined) return {};
    if (typeof ifVersion === "number") {
      if (Number.isSafeInteger(ifVersion) && ifVersion >= 0) return { ifVersion };
      throw raise("bad_option", "ifVersion: a version is a whole number from 0");
    }
    const named = isMap(ifVersion) && "op" in ifVersion ? ifVersion["op"] : ifVersion;
    return { ifVersion: { op: this.#current(idOf("ifVersion", named)) } };
  }
}

const keyText = (className: string, parts: readonly string[]): string => JSON.stringify([className, ...parts]);

/** The new arguments of a refused operation, as JSON. */
export function amendment(args: unknown): string | undefined {
  if (args === undefined) return undefined;
  if (!isMap(args)) throw raise("bad_value", "args is no map");
  return JSON.stringify(encodeMap(args, "args"));
}

function idOf(option: string, ref: unknown): string {
  const id = typeof ref === "object" && ref !== null ? (ref as Exclude<OperationRef, string>).id : ref;
  if (typeof id !== "string" || id === "") throw raise("bad_option", `${option}: must name an operation`);
  return checkUnicode(id, option, "bad_option");
}
