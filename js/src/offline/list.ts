/** The list of an application's files, and the names that page, worker and tools of `escale/offline` share. */

/** The file that the tools write by default. */
export const WORKER = "escale-offline.js";

/** The files of one version of an application. The tools put it in front of the worker. */
export interface FileList {
  /** A hash of everything else in the list, and of the worker. */
  readonly version: string;
  /** By path from the worker's folder: the SHA-256 in base64, or nothing for a file that the server alters. */
  readonly files: { readonly [path: string]: string };
  /** The page that answers for every address that is no file, for an application with routes of its own. */
  readonly fallback?: string;
  /** Beginnings of paths that the server alone answers, such as `api/`. */
  readonly network?: readonly string[];
  /** Whether the worker only removes itself and all that earlier ones kept. */
  readonly remove?: boolean;
}

/** The message of a page to the worker. */
export type Asked = "escale-state";

/** The worker's answer to `escale-state`. */
export interface State {
  /** Whether each file of its version is kept. */
  readonly whole: boolean;
  /** Whether the page has an earlier version than the worker. */
  readonly earlier: boolean;
  readonly message?: string;
}

/** The worker's word to all pages that it could not keep its version. */
export interface Failed {
  readonly escaleOfflineFailed: string;
}

/** The caches of a scope begin with this. */
export const prefixOf = (scope: string): string => `escale-offline ${scope} `;
