/** The protocol without HTTP, for `escale/testing`. It is no public interface: it may change in any version. */
import type { Fault, HandlerOptions, Operation, Storage, Transaction } from "./index.js";

export { Fault, memory, shaS } from "./index.js";

export interface Op {
  readonly name: string;
  readonly args: unknown;
}

export interface SyncRequest {
  readonly session: string;
  readonly epoch?: readonly [number, string] | undefined;
  readonly ops: readonly (Op & { id: string; seq: number; after?: string })[];
  readonly subs: readonly (readonly [def: string, v: number, cursor?: string])[];
}

export interface SyncReply {
  readonly now: number;
  readonly results: readonly { readonly id: string; readonly ok?: object; readonly fault?: object }[];
  readonly parts: readonly { readonly def: string; readonly next?: string; readonly fault?: object }[];
}

export interface Class {
  readonly name: string;
  readonly key: readonly string[];
  readonly collections: { readonly [name: string]: { readonly key: readonly string[] } };
  readonly parent: Class | undefined;
}

export interface Stored {
  readonly v: number;
  readonly deleted: boolean;
  readonly links: readonly string[];
  readonly data: { readonly [name: string]: unknown };
}

export declare class Engine {
  constructor(options: Omit<HandlerOptions, "operations"> & {
    operations?: { readonly [name: string]: Operation };
    before?: (op: Op) => void;
    /** A write that takes longer is `contention`. */
    writeMs?: number;
  });
  readonly classes: ReadonlyMap<string, Class>;
  readonly storage: Storage;
  readonly listeners: Set<(org: string | undefined, defs: ReadonlyMap<string, number>, time: number) => void>;
  readonly reader: {
    refusal(caller: unknown, def: string): Fault | undefined;
    weigh(item: unknown): number;
    weighMembers(count: number): number;
  };
  unknownOperation(name: string): Fault;
  failed(name: string, error: unknown): Fault;
  sync(org: string, caller: { account: string; mayWrite: boolean }, request: SyncRequest): Generator<unknown, SyncReply, any>;
  write(org: string, name: string, args: unknown): Generator<unknown, number, any>;
  /** The living documents of a class, ascending by pk. */
  documents(org: string, className: string): Generator<unknown, { pk: string; v: number; data: Stored["data"] }[], any>;
}

/** Runs a generator: its result, or a promise of it if anything on the way was one. */
export declare function run<T>(generator: Generator<unknown, T, any>): T | Promise<T>;

export declare function pkOf(org: string, cls: Class, key: unknown): string;
/** A copy that shares nothing with the value. */
export declare function copyOf<T>(value: T): T;
/** A value as a text of JSON, with bytes and keys as docs/protocol.md has them. */
export declare function textOfValue(value: unknown): string;
/** The value of such a text. */
export declare function valueOfText(text: string): unknown;
export type { Transaction };
