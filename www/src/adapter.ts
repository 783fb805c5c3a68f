/**
 * A server that is no address: an adapter object that a script put on the page before the page started.
 *
 *     window.escaleAdapter = { sync: async (request) => reply, listen: (defs, on) => stop };
 *
 * The session then asks this object whatever it would ask a server, and no address is proposed. Whoever can run a
 * script in this page can already do more than that.
 */

import type { Adapter } from "escale";

declare global {
  interface Window {
    /** Stands in a server's place; read once, when the page starts. */
    escaleAdapter?: Adapter;
  }
}

/** The adapter object of this page, if it was given one. */
export function adapterOf(page: Pick<Window, "escaleAdapter">): Adapter | undefined {
  return page.escaleAdapter;
}
