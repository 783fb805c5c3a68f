/**
 * The service worker: keeps this version of the page, completely or not at all, so that it opens while its server is
 * stopped.
 *
 * It answers only for the page's own files. It does not touch a session's requests to a data server, and never caches
 * them.
 */

declare const self: ServiceWorkerGlobalScope;
export {};

/** Replaced by the build: the version, and every file of the page. */
declare const __SHELL__: { version: string; files: string[] };

const PREFIX = "escale-demo-";
const CACHE = `${PREFIX}${__SHELL__.version}`;
const SCOPE = self.registration.scope;
const PAGE = new URL("index.html", SCOPE).href;
const FILES = new Set(__SHELL__.files.map((file) => new URL(file, SCOPE).href));

self.addEventListener("install", (event) => {
  const requests = [...FILES].map((url) => new Request(url, { cache: "reload" }));
  // addAll fails as a whole if one file fails, so there is never half a version.
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(requests)));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(takeOver());
});

self.addEventListener("message", (event) => {
  if (event.data === "activate") void self.skipWaiting();
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  const url = new URL(request.url);
  url.search = "";
  url.hash = "";
  const file = request.mode === "navigate" && (url.href === SCOPE || url.href === PAGE) ? PAGE : url.href;
  if (FILES.has(file)) event.respondWith(answer(file, request));
});

async function takeOver(): Promise<void> {
  for (const name of await caches.keys()) if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
  await self.clients.claim();
}

async function answer(file: string, request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  return (await cache.match(file)) ?? fetch(request);
}
