/** The copy of this page that opens without a network. A service worker keeps it, registered after a first opening. */

import { toast } from "./ui/toast";

const PREFIX = "escale-demo-";

/**
 * Registers the worker, unless it is registered. Only a session that stores data on the device calls this: an incognito
 * session must leave nothing behind, not even the page.
 */
export async function keepShell(): Promise<void> {
  if (!("serviceWorker" in navigator) || import.meta.env.DEV) return;
  try {
    const first = !navigator.serviceWorker.controller;
    const registration = await navigator.serviceWorker.register("./sw.js", { scope: "./", updateViaCache: "none" });
    watch(registration);
    if (!first) return;
    await navigator.serviceWorker.ready;
    toast("This page now opens without a network, too.", { icon: "device" });
  } catch {
    // Refused by the browser, or interrupted: the page works, but needs its server to open.
  }
}

/** Ends the worker and deletes its copy. */
export async function forgetShell(): Promise<void> {
  if ("serviceWorker" in navigator) {
    for (const registration of await navigator.serviceWorker.getRegistrations()) await registration.unregister();
  }
  if (!("caches" in globalThis)) return;
  for (const name of await caches.keys()) if (name.startsWith(PREFIX)) await caches.delete(name);
}

function watch(registration: ServiceWorkerRegistration): void {
  if (registration.waiting) offer(registration.waiting);
  registration.addEventListener("updatefound", () => {
    const worker = registration.installing;
    worker?.addEventListener("statechange", () => {
      // Without a controller this is the first installation: no older version is running.
      if (worker.state === "installed" && navigator.serviceWorker.controller) offer(worker);
    });
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) registration.update().catch(() => undefined);
  });
}

function offer(worker: ServiceWorker): void {
  const reload = (): void => {
    navigator.serviceWorker.addEventListener("controllerchange", () => location.reload(), { once: true });
    worker.postMessage("activate");
  };
  toast("A new version is ready. Reloading asks for the passphrase again.", {
    icon: "sync",
    action: { label: "Reload", run: reload },
  });
}
