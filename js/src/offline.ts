/** The entry `escale/offline`: registers the worker that keeps the application's own files. */

import { raised } from "./platform/errors.js";
import { prefixOf, WORKER, type Asked, type Failed, type State } from "./offline/list.js";
import { OfflineStatus, type OfflineState } from "./offline/status.js";

export type { OfflineState, OfflineStatus };

/** Milliseconds between two looks for a newer version, at least. */
const CHECK_EVERY_MS = 60_000;
/** A worker that does not answer for so long is taken for one of another make. */
const ANSWER_WITHIN_MS = 30_000;

/** The options of {@link register}. */
export interface RegisterOptions {
  /** The address of the worker's file; the default is `/escale-offline.js`. It keeps pages from its folder downwards. */
  worker?: string | URL | undefined;
}

/** The application's own files on this device. */
export interface Offline {
  /** The state, for pages that show it. */
  readonly status: OfflineStatus;
  /**
   * Looks for a newer version now. Otherwise a page looks when it opens, and when it becomes visible again. If there is
   * one, `status` says so once it is kept; `location.reload()` opens it. Other tabs keep their version until they reload.
   */
  check(): Promise<void>;
  /** Removes the worker and every file that it keeps. The page goes on with the network. */
  unregister(): Promise<void>;
}

let registered: Registered | undefined;

/**
 * Keeps the application's own files on this device, so that it opens with no network. The files are those of the list in
 * the worker, which `escale/vite` or `npx escale offline` writes. The first call decides about the worker.
 *
 *     const offline = register();
 *     offline.status.subscribe(({ ready, update }) => show(ready, update));
 *
 * It never throws because of the browser or the network: `status` tells that.
 */
export function register(options: RegisterOptions = {}): Offline {
  if (registered && !registered.isOver) return registered;
  registered = new Registered(addressOf(options));
  return registered;
}

/** Removes the worker and every file that it keeps, without registering it first. */
export async function unregister(options: RegisterOptions = {}): Promise<void> {
  if (registered && !registered.isOver) await registered.unregister();
  else await remove(scopeOf(addressOf(options)));
}

function addressOf({ worker = `/${WORKER}` }: RegisterOptions): URL {
  let url: URL;
  try {
    url = new URL(worker, globalThis.document?.baseURI);
  } catch (cause) {
    throw raised("bad_option", "worker: not an address", cause);
  }
  if (globalThis.location && url.origin !== location.origin) throw raised("bad_option", "worker: must be on the page's own origin");
  return url;
}

/** Pages from the worker's folder downwards. */
const scopeOf = (url: URL): string => new URL("./", url).href;

const isSupported = (): boolean => typeof navigator === "object" && "serviceWorker" in navigator && typeof document === "object";

async function remove(scope: string): Promise<void> {
  if (!isSupported()) return;
  const registration = await navigator.serviceWorker.getRegistration(scope);
  if (registration?.scope === scope) await registration.unregister();
  for (const name of await caches.keys()) if (name.startsWith(prefixOf(scope))) await caches.delete(name);
}

class Registered implements Offline {
  readonly status: OfflineStatus;
  /** Whether the worker was removed. */
  isOver = false;
  readonly #url: URL;
  readonly #registration: Promise<ServiceWorkerRegistration | undefined>;
  readonly #ends = new AbortController();
  #checkedAt = 0;
  #known: ServiceWorker | undefined;

  constructor(url: URL) {
    this.#url = url;
    this.status = new OfflineStatus(isSupported());
    this.#registration = isSupported() ? this.#begin() : Promise.resolve(undefined);
  }

  async check(): Promise<void> {
    this.#checkedAt = Date.now();
    await (await this.#registration)?.update().catch(() => {
      // No network, or the worker's file is gone: the version that is kept goes on.
    });
  }

  async unregister(): Promise<void> {
    this.isOver = true;
    this.#ends.abort();
    this.status.set({ ready: false, update: false, error: null });
    await this.#registration;
    await remove(scopeOf(this.#url));
  }

  async #begin(): Promise<ServiceWorkerRegistration | undefined> {
    // The page's own first requests come first.
    if (document.readyState !== "complete") await new Promise((resolve) => addEventListener("load", resolve, { once: true }));
    const container = navigator.serviceWorker;
    const { signal } = this.#ends;
    container.addEventListener("message", ({ data }) => this.#heard(data as Partial<Failed> | null), { signal });
    try {
      const registration = await container.register(this.#url, { scope: scopeOf(this.#url), updateViaCache: "none" });
      this.#checkedAt = Date.now();
      this.#watch(registration, signal);
      return registration;
    } catch (cause) {
      const name = this.#url.pathname;
      this.#fail(`${name} could not be registered; ${cause instanceof Error ? cause.message : "no reason was given"}`, cause);
      return undefined;
    }
  }

  #watch(registration: ServiceWorkerRegistration, signal: AbortSignal): void {
    const follow = (worker: ServiceWorker | null): void => {
      worker?.addEventListener("statechange", () => this.#noteActive(registration), { signal });
      this.#noteActive(registration);
    };
    follow(registration.installing ?? registration.waiting ?? registration.active);
    registration.addEventListener("updatefound", () => follow(registration.installing), { signal });
    document.addEventListener(
      "visibilitychange",
      () => void (!document.hidden && Date.now() - this.#checkedAt >= CHECK_EVERY_MS && this.check()),
      { signal },
    );
  }

  #noteActive({ active }: ServiceWorkerRegistration): void {
    if (active?.state !== "activated" || active === this.#known) return;
    // A later worker than the first one that this page has met is a newer version.
    if (this.#known) this.status.set({ update: true });
    this.#known = active;
    void this.#ask(active);
  }

  /** Asks the worker whether each file is kept. It fetches a file again that the browser has lost. */
  async #ask(worker: ServiceWorker): Promise<void> {
    const { port1, port2 } = new MessageChannel();
    const answer = await new Promise<State | undefined>((resolve) => {
      const late = setTimeout(resolve, ANSWER_WITHIN_MS);
      port1.onmessage = ({ data }) => {
        clearTimeout(late);
        resolve(data as State);
      };
      worker.postMessage("escale-state" satisfies Asked, [port2]);
    });
    port1.close();
    if (this.isOver) return;
    if (answer?.earlier) this.status.set({ update: true });
    if (answer?.whole) this.status.set({ ready: true, error: null });
    else if (answer?.message !== undefined) this.#fail(answer.message);
  }

  #heard(data: Partial<Failed> | null): void {
    if (data?.escaleOfflineFailed !== undefined) this.#fail(data.escaleOfflineFailed);
  }

  #fail(message: string, cause?: unknown): void {
    this.status.set({ error: raised("worker_failed", message, cause) });
  }
}
