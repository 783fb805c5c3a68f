/** The server part of the application's own operations. */

import type { Value } from "../schema/raw.js";

/** The documents of the server, as the server part of an operation of the application reads and writes them. */
export interface ServerDocuments {
  get(className: string, key: readonly string[]): { readonly [name: string]: Value } | undefined;
  put(className: string, data: object): void;
  patch(className: string, key: readonly string[], changes: object): void;
  delete(className: string, key: readonly string[]): void;
}

/** The server part of an operation of the application. It refuses by throwing {@link refusal}. */
export type ServerOperation = (documents: ServerDocuments, args: { readonly [name: string]: unknown }) => unknown;

/** An operation as it arrives. */
export interface Op {
  readonly name: string;
  readonly args: unknown;
}
