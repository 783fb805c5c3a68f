/**
 * A server without an address: an adapter object that a script put on the page before the page started.
 *
 *     window.escaleAdapter = { sync: async (request) => reply, listen: (defs, on) => stop };
 *
 * The session then sends this object every request for a server, and the page proposes no address. A script in this
 * page can already do more than that.
 */

import type { Adapter } from "escale";

declare global {
  interface Window {
    /** Replaces a server; read once, when the page starts. */
    escaleAdapter?: Adapter;
  }
}

/** The adapter object of this page, if there is one. */
export function adapterOf(page: Pick<Window, "escaleAdapter">): Adapter | undefined {
  return page.escaleAdapter;
}
