/** The copy of this page that opens without a network: kept after a first opening that stores data. */

import { register, unregister, type Offline, type OfflineState } from "escale/offline";
import { toast } from "./ui/toast";

/** The worker of all pages, as this page names it. */
const WORKER = "./escale-offline.js";

let kept: Offline | undefined;

/**
 * Keeps the page. Only a session that stores data on the device calls this: an incognito session must leave nothing
 * behind, not even the page.
 */
export function keepShell(worker = WORKER): void {
  if (import.meta.env.DEV) return;
  const offline = register({ worker });
  // The visitor has locked one session and opened another.
  if (offline === kept) return;
  kept = offline;
  const isFirst = !navigator.serviceWorker?.controller;
  let before: OfflineState | undefined;
  offline.status.subscribe((state) => {
    const isNew = (what: "ready" | "update"): boolean => state[what] && !before?.[what];
    if (isNew("ready") && isFirst) toast("This page now opens without a network, too.", { icon: "device" });
    if (isNew("update")) {
      toast("A new version is ready. Reloading asks for the passphrase again.", {
        icon: "sync",
        action: { label: "Reload", run: () => location.reload() },
      });
    }
    before = state;
  });
}

/** Ends the worker and deletes its copy. */
export async function forgetShell(): Promise<void> {
  await unregister({ worker: WORKER });
}
