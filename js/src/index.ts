/** The public API of the package: everything that an application can import. */

import { decodeBase64Url, encodeBase64Url } from "./base/base64.js";
import { isBytes } from "./base/bytes.js";
import { KINDS, RAISED_HERE } from "./base/error-codes.js";
import { callSafely } from "./base/report.js";
import { carry } from "./package.js";

export type { Batch } from "./writes/batch.js";
export type { Adapter, Role } from "./wasm/core.js";
export type { ErrorCode, ErrorKind } from "./base/error-codes.js";
export { EscaleError } from "./base/errors.js";
export type { Journal, SweepOptions, Swept } from "./writes/journal.js";
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
} from "./writes/operation-types.js";
export { defineOperations } from "./writes/operations.js";
export type { AccountEntry, Door, EnterOptions, Identity, PasskeySource } from "./session/entry.js";
export type { OpenOptions, WipeOptions } from "./session/options.js";
export type { TokenSource } from "./session/token.js";
export { init, open, wipe, type InitOptions, type OpenInMemory } from "./package.js";
export { newId } from "./base/id.js";
export type { Query, QueryState } from "./schema/query.js";
export { defineSchema, type Document, type Schema, type SchemaFunctions, type ValuesCheck } from "./schema/schema.js";
export type {
  ClassDeclaration,
  ClassName,
  CollectionDeclaration,
  DocumentOf,
  FileRef,
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
  PropertyRule,
  PropertyType,
  Rule,
  SchemaDeclaration,
} from "./schema/schema-types.js";
export type { Inspection, Meta, QuotaState, Session } from "./session/session.js";
export type { Mode, Phase, Status, StatusValue } from "./session/status.js";
export type { Persistence, StorageUsage } from "./base/storage.js";
export type { Value } from "./schema/raw.js";
export type { Composite, ItemsOf, TreeOf } from "./views/composite.js";
export type { ScopeMatch, ScopeOptions, ScopeRules } from "./views/scope.js";
export type { LiveCallback, LiveState, Stop } from "./views/view.js";
export type { Collection, LeaseOptions } from "./views/views.js";
export type { WaitOptions } from "./views/waiting.js";
export type { InitInput } from "./wasm/wasm.js";

/** @internal The parts that the other entries use, which no page loads twice (docs/decisions/56-one-internal-export.md). */
export const internal = { carry, KINDS, RAISED_HERE, decodeBase64Url, encodeBase64Url, isBytes, callSafely };
