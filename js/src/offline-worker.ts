/**
 * The service worker of `escale/offline`: keeps one version of the application's own files, completely or not at all, so
 * that the application opens with no network.
 *
 * A newer version takes over as soon as it is whole. Open pages keep the version that they began with, file by file, and
 * the next page that opens has the newer one. So a page never mixes versions, and no user is stuck with an old one.
 *
 * It answers only for the files of its list and for pages. It never touches a request that is no GET, that goes to
 * another origin, or that asks for part of a file; so no answer of a server of data is ever kept (R13). If anything
 * fails in here, the network answers.
 *
 * The tools of `escale/offline-build` write the list in front of it, as `self.escaleFiles`.
 */

import { Keeper } from "./offline/keep.js";
import type { Asked, Failed, FileList, State } from "./offline/list.js";
import type { Fetched, WorkerScope } from "./offline/scope.js";
import { NETWORK, Versions } from "./offline/versions.js";

declare const self: WorkerScope & { readonly escaleFiles?: FileList };

const list: FileList = self.escaleFiles ?? missing();
const base = self.location.href;
const keeper = new Keeper(list, base, self.registration.scope);
const versions = new Versions(self, list.version);
const files = new Set(Object.keys(list.files).map((path) => keeper.url(path)));

self.addEventListener("install", (event) => {
  event.waitUntil(list.remove ? self.skipWaiting() : install().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(list.remove ? remove() : takeOver());
});

self.addEventListener("message", (event) => {
  if ((event.data as Asked) !== "escale-state") return;
  event.waitUntil(state(event.source?.id).then((answer) => event.ports[0]?.postMessage(answer)));
  // The page before this one has gone by now.
  event.waitUntil(dropUnused());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (list.remove || request.method !== "GET" || request.headers.has("range")) return;
  if (url.origin !== self.location.origin) return;
  if (request.mode === "navigate") {
    if (url.href.startsWith(self.registration.scope) && !isOfNetwork(url)) event.respondWith(answerPage(event, url));
    return;
  }
  // A page of an earlier version may ask for a file that this version does not have.
  const mayBeEarlier = versions.areCurrent !== true && /\.\w+$/.test(url.pathname);
  if (files.has(url.href) || mayBeEarlier) event.respondWith(answerFile(event, url.href));
});

function missing(): never {
  throw new Error("escale/offline: the worker has no list of files; `npx escale offline FOLDER` writes it");
}

async function install(): Promise<void> {
  try {
    await keeper.fill();
  } catch (error) {
    const failed: Failed = { escaleOfflineFailed: textOf(error) };
    for (const client of await self.clients.matchAll({ type: "window", includeUncontrolled: true })) client.postMessage(failed);
    throw error;
  }
}

async function takeOver(): Promise<void> {
  await versions.takeOver();
  await dropUnused();
}

/** Deletes the versions that no page has. A version that is being installed is not in use yet, and must stay. */
async function dropUnused(): Promise<void> {
  const { installing, waiting } = self.registration;
  if (!installing && !waiting) await keeper.drop(await versions.inUse());
}

async function remove(): Promise<void> {
  await keeper.drop(new Set());
  await self.registration.unregister();
}

/**
 * Whether this version is kept as a whole, and whether the page has it. If the browser has lost a part of it, that part is
 * fetched again first.
 */
async function state(client = ""): Promise<State> {
  try {
    if (!list.remove && !(await keeper.isWhole())) await keeper.fill();
    const version = await versions.of(client);
    return { whole: !list.remove, earlier: version !== list.version && version !== NETWORK };
  } catch (error) {
    return { whole: false, earlier: false, message: textOf(error) };
  }
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Whether the path is one that the list leaves to the server. */
function isOfNetwork({ href }: URL): boolean {
  return list.network?.some((path) => href.startsWith(keeper.url(path))) ?? false;
}

/** The file that answers a navigation, as servers of static files choose it. */
function pageAt(url: URL): string | undefined {
  const plain = url.origin + url.pathname;
  const found = [plain, `${plain}index.html`, `${plain}.html`, `${plain}/index.html`].find((file) => files.has(file));
  return found ?? (list.fallback && keeper.url(list.fallback));
}

async function answerPage(event: Fetched, url: URL): Promise<Response> {
  const page = pageAt(url);
  try {
    await versions.takeOver();
    const kept = await (await keeper.open()).match(page ?? keeper.url("index.html"));
    // The server's page may be of any version. All its files come from there; with no network, this version opens.
    if (!page || !kept) return await fromNetwork(event, kept);
    // A version that takes over right now does not see this page among the open ones.
    if (self.registration.installing || self.registration.waiting) await versions.begin(event.resultingClientId, list.version);
    event.waitUntil(dropUnused());
    return kept;
  } catch {
    return await fetch(event.request);
  }
}

async function fromNetwork(event: Fetched, kept: Response | undefined): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(event.request);
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
  await versions.begin(event.resultingClientId, NETWORK).catch(() => {});
  return response;
}

async function answerFile({ request, clientId, resultingClientId }: Fetched, url: string): Promise<Response> {
  let kept: Response | undefined;
  try {
    const version = await versions.of(clientId);
    if (version !== NETWORK) kept = await (await keeper.open(version)).match(url);
    if (version !== list.version) await versions.begin(resultingClientId, version);
  } catch {
    // The browser's storage fails: the network answers.
  }
  return kept ?? (await fetch(request));
}
