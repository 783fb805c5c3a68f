/** The public API of the package: everything that an application can import. */

export type { Batch } from "./batch.js";
export type { Adapter } from "./core.js";
export type { ErrorCode, ErrorKind } from "./error-codes.js";
export { EscaleError } from "./errors.js";
export type { Journal, SweepOptions, Swept } from "./journal.js";
export type {
  Accepted,
  ArgsOf,
  ChangesOf,
  ConflictPolicy,
  Conflicts,
  DataOf,
  Operation,
  OperationArgs,
  OperationDeclaration,
  OperationName,
  OperationRef,
  Operations,
  OrderOptions,
  PastState,
  PatchOptions,
  PendingOperation,
  Refused,
  RefusedOperation,
  RunOptions,
  Settle,
  Theirs,
  Touched,
  Transaction,
  VersionRef,
  Within,
  WriteOptions,
} from "./operation-types.js";
export { defineOperations } from "./operations.js";
export type { OpenOptions, TokenSource, WipeOptions } from "./options.js";
export { init, open, wipe, type InitOptions } from "./package.js";
export type { Query } from "./query.js";
export { defineSchema, type Document, type Schema, type SchemaFunctions } from "./schema.js";
export type {
  ClassDeclaration,
  ClassName,
  CollectionDeclaration,
  DocumentOf,
  IndexLong,
  IndexName,
  IndexType,
  KeyOf,
  MatchOf,
  MigratedData,
  Migration,
  Migrations,
  OperandOf,
  OperatorOf,
  PropertyType,
  SchemaDeclaration,
} from "./schema-types.js";
export type { Inspection, Meta, Session } from "./session.js";
export type { Mode, Phase, Status, StatusValue } from "./status.js";
export type { Persistence, StorageUsage } from "./storage.js";
export type { Value } from "./values.js";
export type { LiveCallback, LiveState, Stop } from "./view.js";
export type { Collection } from "./views.js";
export type { InitInput } from "./wasm.js";
