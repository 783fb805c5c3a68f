/**
 * The log of requests. The browser itself reports each request by URL; an adapter object is wrapped. So neither the wasm
 * nor `index.js` holds anything for it. No entry holds an address, a header or a body.
 */

import { isBytes } from "../base/bytes.js";
import type { ErrorCode } from "../base/error-codes.js";
import type { Adapter } from "../wasm/core.js";

/** One request of the session, or a change of its way to hear of changes. */
export interface NetworkEntry {
  /** Milliseconds since 1970 by the device's clock. */
  readonly at: number;
  /** `sync`: a request. `listen`: an adapter was asked to listen. `frame`: an adapter reported a change. */
  readonly kind: "sync" | "listen" | "frame";
  /** Milliseconds until the end; null for a frame. */
  readonly ms: number | null;
  /** The status of HTTP; null if the browser or the adapter does not say. */
  readonly status: number | null;
  /** The error's code if it failed, as far as it is known. */
  readonly code: string | null;
  /** Bytes of the reply, as they travelled; null if the server of another origin does not allow to see it. */
  readonly bytes: number | null;
  /** Of an adapter: the subscriptions and the operations of the request. */
  readonly subs: number | null;
  readonly ops: number | null;
}

type Listener = (entry: NetworkEntry) => void;

/** The adapters that were wrapped, for all panels of the page. */
const listeners = new Set<Listener>();

const NONE = { status: null, code: null, bytes: null, subs: null, ops: null } as const;

/** The codes that a transport gives. Any other could be text of the application. */
const CODES: readonly unknown[] = [
  "offline",
  "timeout",
  "unauthorized",
  "forbidden",
  "unknown_org",
  "too_many",
  "too_large",
  "unavailable",
  "server_error",
  "contention",
  "malformed",
  "wrong_protocol",
] satisfies ErrorCode[];

/**
 * Wraps an adapter object, so that the panel's network log lists its calls. Pass the result to `open`. Sessions by URL
 * need no wrapper.
 *
 * @example
 * ```js
 * import { defineSchema, open } from "escale";
 * import { watchServer } from "escale/devtools";
 *
 * const adapter = { sync: () => Promise.reject({ code: "offline" }) };
 * const schema = defineSchema({ Note: { key: ["id"] } });
 * const session = await open({ org: "demo", schema, server: watchServer(adapter), passphrase });
 * await session.close();
 * ```
 */
export function watchServer(adapter: Adapter): Adapter {
  const tell = (entry: NetworkEntry): void => listeners.forEach((listener) => listener(entry));
  const watched: Adapter = {
    sync: async (request) => {
      const [at, start] = [Date.now(), performance.now()];
      const { subs, ops } = request as { subs?: unknown[]; ops?: unknown[] };
      const asked = { subs: subs?.length ?? 0, ops: ops?.length ?? 0 };
      const entry = { ...NONE, ...asked, at, kind: "sync" } as const;
      try {
        const reply = await adapter.sync(request);
        tell({ ...entry, ms: performance.now() - start, bytes: sizeOf(reply) });
        return reply;
      } catch (error) {
        tell({ ...entry, ms: performance.now() - start, ...failureOf(error) });
        throw error;
      }
    },
  };
  if (adapter.listen) {
    watched.listen = (defs, on) => {
      tell({ ...NONE, at: Date.now(), kind: "listen", ms: 0, subs: defs.length });
      return adapter.listen?.(defs, (frame) => {
        tell({ ...NONE, at: Date.now(), kind: "frame", ms: null, bytes: sizeOf(frame) });
        on(frame);
      });
    };
  }
  return watched;
}

/** Calls back with each request from now on, and with those that the browser still remembers. Returns a function that ends it. */
export function watchNetwork(listener: Listener): () => void {
  listeners.add(listener);
  const observer = observe(listener);
  return () => {
    listeners.delete(listener);
    observer?.disconnect();
  };
}

function observe(listener: Listener): PerformanceObserver | undefined {
  if (typeof PerformanceObserver === "undefined" || !PerformanceObserver.supportedEntryTypes?.includes("resource")) return undefined;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (isSync(entry)) listener(entryOf(entry));
  });
  observer.observe({ type: "resource", buffered: true });
  return observer;
}

/** Whether a request is one of a session: `ORG/sync`, by `fetch`. */
function isSync(entry: PerformanceEntry): entry is PerformanceResourceTiming {
  const { initiatorType } = entry as PerformanceResourceTiming;
  return initiatorType === "fetch" && entry.name.endsWith("/sync");
}

function entryOf(timing: PerformanceResourceTiming): NetworkEntry {
  const { responseStatus: status = 0 } = timing as { responseStatus?: number };
  return {
    ...NONE,
    at: performance.timeOrigin + timing.startTime,
    kind: "sync",
    ms: timing.duration,
    // Zero: the browser got no answer, or may not say. A reply of another origin has sizes only if its server allows it.
    status: status || null,
    bytes: timing.encodedBodySize || null,
  };
}

function failureOf(error: unknown): { code: string; status: number | null } {
  const { code, status } = (typeof error === "object" && error !== null ? error : {}) as { code?: unknown; status?: unknown };
  // A rejection without a code means that there was no answer.
  const known = code === undefined ? "offline" : CODES.includes(code) ? (code as string) : "other";
  return { code: known, status: typeof status === "number" ? status : null };
}

function sizeOf(message: object | string | Uint8Array): number | null {
  if (typeof message === "string") return message.length;
  return isBytes(message) ? message.length : null;
}
