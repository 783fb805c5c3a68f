/** The part of a service worker's globals that the worker uses: the types of a page and of a worker exclude each other. */

export interface Extendable {
  waitUntil(work: Promise<unknown>): void;
}

export interface Fetched extends Extendable {
  readonly request: Request;
  readonly clientId: string;
  readonly resultingClientId: string;
  respondWith(answer: Promise<Response>): void;
}

export interface Messaged extends Extendable {
  readonly data: unknown;
  readonly ports: readonly MessagePort[];
  readonly source: Client | null;
}

/** A page, or a worker of a page. */
export interface Client {
  readonly id: string;
  postMessage(message: unknown): void;
}

export interface WorkerScope {
  readonly registration: ServiceWorkerRegistration;
  readonly location: Location;
  readonly clients: { matchAll(options: { type: string; includeUncontrolled?: boolean }): Promise<readonly Client[]> };
  skipWaiting(): Promise<void>;
  addEventListener(name: "install" | "activate", listen: (event: Extendable) => void): void;
  addEventListener(name: "fetch", listen: (event: Fetched) => void): void;
  addEventListener(name: "message", listen: (event: Messaged) => void): void;
}
