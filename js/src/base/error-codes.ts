/** The codes and kinds of errors. The full table, with all cures, is in `src/error.rs`. */

/**
 * The kind of an error, by its cause. `refused`: the arguments do not suit the data. `not-found`: they name nothing.
 * `bug`: a mistake in a program. `unexpected`: hardware, network or storage. `outdated`: the client is too old. `retry`:
 * contention. `unavailable`: the service is closed for a while. `unauthorized`: there is no right to it.
 */
export type ErrorKind = "refused" | "not-found" | "bug" | "unexpected" | "outdated" | "retry" | "unavailable" | "unauthorized";

/** The letter of each kind, on the wire and in the wasm (docs/protocol.md). */
export const KINDS = {
  A: "refused",
  N: "not-found",
  B: "bug",
  X: "unexpected",
  D: "outdated",
  C: "retry",
  O: "unavailable",
  S: "unauthorized",
} as const satisfies Record<string, ErrorKind>;

export type KindLetter = keyof typeof KINDS;

/** A stable name for each way to fail. Compare codes, never messages. The list equals the one in `src/error.rs`. */
export type ErrorCode =
  | "bad_option"
  | "bad_schema"
  | "bad_value"
  | "bad_key"
  | "unknown_class"
  | "unknown_def"
  | "unknown_index"
  | "too_many_subscriptions"
  | "unknown_operation"
  | "key_mismatch"
  | "immutable_key"
  | "not_found"
  | "version_conflict"
  | "not_unique"
  | "quota_exceeded"
  | "file_missing"
  | "file_damaged"
  | "not_supported"
  | "malformed"
  | "bad_reply"
  | "server_refused"
  | "too_large"
  | "too_deep"
  | "wrong_protocol"
  | "offline"
  | "timeout"
  | "unauthorized"
  | "forbidden"
  | "withdrawn"
  | "blocked"
  | "unknown_org"
  | "too_many"
  | "unavailable"
  | "server_error"
  | "contention"
  | "order_gap"
  | "order_held"
  | "session_reused"
  | "bad_cursor"
  | "forgotten"
  | "bad_login"
  | "login_taken"
  | "invitation_unknown"
  | "invitation_needed"
  | "last_admin"
  | "account_closed"
  | "device_revoked"
  | "passphrase_changed"
  | "account_mismatch"
  | "wrong_passphrase"
  | "store_damaged"
  | "no_store"
  | "store_in_use"
  | "deposed"
  | "store_too_new"
  | "schema_mismatch"
  | "insecure_context"
  | "storage_full"
  | "storage_failed"
  | "storage_closed"
  | "record_damaged"
  | "local_data_lost"
  | "not_saved"
  | "closed"
  | "not_loaded"
  | "out_of_scope"
  | "wasm_forbidden"
  | "wasm_failed"
  | "worker_failed"
  | "panicked"
  | "internal";

/** The kind and the cure of each code. Both equal those of `src/error.rs`. */
export type Faults = { readonly [C in ErrorCode]?: readonly [kind: KindLetter, cure: string] };

/**
 * The codes that this side raises itself, with their cures. Some can occur before any wasm is loaded that could give
 * the texts.
 */
export const RAISED_HERE = {
  bad_option: ["A", "Correct the option that the message names."],
  bad_schema: ["A", "Correct the schema at the place that the message names."],
  bad_value: ["A", "Use strings, finite numbers, booleans, null, bytes, lists and maps, by the rules of the class."],
  bad_key: ["A", "Give each key property as a string; only the last one may hold a slash."],
  unknown_class: ["N", "Declare the class here and on the server, or correct its name."],
  unknown_index: ["N", "Declare the index in the schema, or correct its name."],
  too_many_subscriptions: ["A", "Unsubscribe from some, or subscribe to a larger collection."],
  too_deep: ["A", "Flatten the value."],
  unauthorized: ["S", "Give a valid token: pass `token` as a function that fetches a new one."],
  not_saved: ["A", "Let the writes arrive, or call wipe({ drafts: 'delete' })."],
  closed: ["A", "Open a new session."],
  not_loaded: ["X", "Load it once in `synced`, with the network up."],
  out_of_scope: ["N", "Let a rule of `scope` lead to it, or leave it out of the page."],
  forgotten: ["N", "It was executed; its result is too old to be given."],
  wasm_forbidden: ["S", "Add 'wasm-unsafe-eval' to script-src in the page's Content-Security-Policy."],
  wasm_failed: ["X", "Serve the .wasm file, pass its URL to init(), or write `import 'escale/inline'`."],
  worker_failed: ["X", "Serve the worker and its files as they were built; the message names the wrong one."],
  panicked: ["B", "Open the session again, and report the message."],
  internal: ["B", "Report the message: this is a bug of Escale."],
} as const satisfies Faults;
