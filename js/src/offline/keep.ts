/**
 * Fetches a version's files, and keeps them in a cache of their own.
 *
 * Invariant: a file counts as kept only if its bytes have the hash of the list. So a deployment in the middle of an
 * installation makes it fail, and never mixes two versions. A script that once ran in the page can write into any of these
 * caches. Therefore nothing that a cache holds is trusted by its name: its bytes are hashed, or it is fetched again.
 */

import { prefixOf, type FileList } from "./list.js";

/** Requests at once. */
const AT_ONCE = 6;

/** The caches of one scope. */
export class Keeper {
  readonly #list: FileList;
  readonly #base: string;
  readonly #prefix: string;

  constructor(list: FileList, base: string, scope: string) {
    this.#list = list;
    this.#base = base;
    this.#prefix = prefixOf(scope);
  }

  /** The cache of a version. */
  open(version = this.#list.version): Promise<Cache> {
    return caches.open(this.#prefix + version);
  }

  /** The address of a file. */
  url(path: string): string {
    return new URL(path, this.#base).href;
  }

  /** Keeps every file that is not kept yet. Fails at the first file that cannot be kept. */
  async fill(): Promise<void> {
    const cache = await this.open();
    const kept = await this.#kept();
    const paths = Object.keys(this.#list.files);
    const next = async (): Promise<void> => {
      for (let path = paths.pop(); path !== undefined; path = paths.pop()) await this.#keep(cache, path, kept);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    await cache.put(this.url(LIST), new Response(JSON.stringify(this.#list.files)));
    // The cache may have been deleted meanwhile, by the user or the browser.
    if (!(await this.isWhole())) throw new Error("the browser did not keep every file");
  }

  /** Whether every file of this version is kept, with the bytes of the build. */
  async isWhole(): Promise<boolean> {
    const cache = await this.open();
    const isKept = async ([path, hash]: [string, string]): Promise<boolean> => !!(await genuine(await cache.match(this.url(path)), hash));
    return (await Promise.all(Object.entries({ ...this.#list.files, [LIST]: "" }).map(isKept))).every(Boolean);
  }

  /** Deletes the caches of every version, except these. */
  async drop(except: ReadonlySet<string>): Promise<void> {
    for (const name of await caches.keys()) {
      if (name.startsWith(this.#prefix) && !except.has(name.slice(this.#prefix.length))) await caches.delete(name);
    }
  }

  /** The files of the complete versions that are kept, by their hashes: an update fetches the others only. */
  async #kept(): Promise<Map<string, () => Promise<Response | undefined>>> {
    const kept = new Map<string, () => Promise<Response | undefined>>();
    for (const name of await caches.keys()) {
      if (!name.startsWith(this.#prefix)) continue;
      const cache = await caches.open(name);
      const files = (await (await cache.match(this.url(LIST)))?.json()) as FileList["files"] | undefined;
      for (const [path, hash] of Object.entries(files ?? {})) if (hash) kept.set(hash, () => cache.match(this.url(path)));
    }
    return kept;
  }

  async #keep(cache: Cache, path: string, kept: Map<string, () => Promise<Response | undefined>>): Promise<void> {
    const hash = this.#list.files[path];
    const url = this.url(path);
    if (hash && (await genuine(await cache.match(url), hash))) return;
    // A page is served at the address of its folder; some servers only redirect from the file's own name.
    const address = url.replace(/(^|\/)index\.html$/, "$1");
    // A page is more than its bytes: the headers of a copy may be older than the deployment's, or forged.
    const mayCopy = hash && !path.endsWith(".html");
    const same = mayCopy ? await genuine(await kept.get(hash)?.(), hash) : undefined;
    const response = same ?? (await this.#fetched(path, address, hash));
    await cache.put(url, response);
  }

  async #fetched(path: string, url: string, hash: string | undefined): Promise<Response> {
    const response = await fetched(path, url, hash);
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    if (response.type !== "basic") throw new Error(`${path} is on another origin`);
    if (/no-store/i.test(response.headers.get("cache-control") ?? "")) throw new Error(`${path} is served with no-store`);
    // The answer to a navigation must not be one that was redirected.
    return response.redirected ? new Response(response.body, response) : response;
  }
}

/** The response if its bytes have this hash; without a hash, every response. */
async function genuine(response: Response | undefined, hash: string): Promise<Response | undefined> {
  if (!response || !hash) return response;
  const digest = await crypto.subtle.digest("SHA-256", await response.clone().arrayBuffer());
  return btoa(String.fromCharCode(...new Uint8Array(digest))) === hash ? response : undefined;
}

/**
 * Fetches a file. The page has just loaded most of them: a copy in the browser's cache will do if it has the right bytes.
 */
async function fetched(path: string, url: string, hash: string | undefined): Promise<Response> {
  const ways: RequestCache[] = hash ? ["default", "reload"] : ["reload"];
  let cause: unknown;
  for (const cache of ways) {
    try {
      return await fetch(url, { cache, credentials: "same-origin", ...(hash && { integrity: `sha256-${hash}` }) });
    } catch (error) {
      cause = error;
    }
  }
  // Browsers do not say which of the two it was.
  throw new Error(`${path} could not be fetched, or has other bytes than the build`, { cause });
}

/** The name of the record that ends a complete version. No file of a folder has this name. */
const LIST = "?escale-list";
