/** The one error class of this package, and the conversion of everything thrown to it. */

import { KINDS, RAISED_HERE, type ErrorCode, type ErrorKind, type Faults, type KindLetter } from "./error-codes.js";

/** An error as it crosses from the wasm. Every method of the core throws objects of this shape. */
export interface CoreError {
  code: string;
  kind: KindLetter;
  retryable: boolean;
  message: string;
  cure: string;
}

/**
 * The error with which every call of this package fails. Its message is for developers and never holds application
 * data.
 *
 * @example
 * ```js
 * import { defineSchema, EscaleError, open } from "escale";
 *
 * const schema = defineSchema({ Note: { key: ["id"] } });
 * try {
 *   await open({ org: "demo", schema, server: "http://localhost:7700" });
 * } catch (error) {
 *   if (!(error instanceof EscaleError)) throw error;
 *   show(error.code, error.cure); // bad_option: the developer forgot the passphrase
 * }
 * ```
 */
export class EscaleError extends Error {
  /** A stable name, to compare. */
  readonly code: ErrorCode;
  /** The kind of the error, by its cause. */
  readonly kind: ErrorKind;
  /** Whether the same call, unchanged, can succeed later. */
  readonly retryable: boolean;
  /** How the developer can solve the problem. `advice` of `escale/advice` says it to the person in front of the page. */
  readonly cure: string;

  /** @internal */
  constructor(error: CoreError, cause?: unknown) {
    super(error.message, cause === undefined ? undefined : { cause });
    // V8 keeps the functions on the stack until somebody reads it, and with them documents that outlive their session.
    void this.stack;
    this.name = "EscaleError";
    this.code = error.code as ErrorCode;
    this.kind = KINDS[error.kind];
    this.retryable = error.retryable;
    // The wasm has no cure for a code that this side raises too.
    this.cure = error.cure || ((RAISED_HERE as Faults)[this.code]?.[1] ?? "");
  }

  /** All fields, for logs: `JSON.stringify` leaves out the message of an `Error`. */
  toJSON(): object {
    const { name, code, kind, retryable, message, cure } = this;
    return { name, code, kind, retryable, message, cure };
  }
}

/** Makes an error of this side. `detail` says which fault was found, and where. */
export function raise(code: keyof typeof RAISED_HERE, detail: string, cause?: unknown): EscaleError {
  const [kind, cure] = RAISED_HERE[code];
  const retryable = kind === "X";
  return new EscaleError({ code, kind, retryable, message: detail, cure }, cause);
}

/** Turns anything that was thrown into an {@link EscaleError}. `cause` is for an error of the core, which has none. */
export function toEscaleError(thrown: unknown, cause?: unknown): EscaleError {
  if (thrown instanceof EscaleError) return thrown;
  if (isCoreError(thrown)) return new EscaleError(thrown, cause);
  if (isTrap(thrown)) return stopped(thrown);
  const name = thrown instanceof Error ? thrown.name : typeof thrown;
  return raise("internal", `an unexpected ${name} was thrown`, thrown);
}

/** The wasm stopped: says in which of its functions, if the engine tells. `scripts/wasm/trap-names.mjs` has their names. */
export function stopped(trap: unknown, when = ""): EscaleError {
  const { message = "", stack = "" } = trap instanceof Error ? trap : {};
  const places = [...stack.matchAll(/wasm-function\[(\d+)/g)].slice(0, MOST_PLACES).map(([, place]) => place);
  const where = [message, places.join(" ")].filter(Boolean).join(": ");
  return raise("panicked", `the wasm stopped on a bug${when}${where && ` (${where})`}`, trap);
}

/** So many functions of a trap's stack are in the message. */
const MOST_PLACES = 8;

function isCoreError(thrown: unknown): thrown is CoreError {
  if (typeof thrown !== "object" || thrown === null) return false;
  const { code, kind, message, cure } = thrown as Partial<CoreError>;
  return [code, kind, message, cure].every((field) => typeof field === "string") && Object.hasOwn(KINDS, kind as string);
}

function isTrap(thrown: unknown): thrown is Error {
  return typeof WebAssembly === "object" && thrown instanceof WebAssembly.RuntimeError;
}
