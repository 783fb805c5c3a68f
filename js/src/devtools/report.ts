/**
 * The redacted report: enough to find a fault, and none of the user's data. It is made of numbers, of times, and of words
 * from lists that this file knows. Any other text is left out: messages, addresses, ids, keys, names of stores.
 */

import type { AnySession, Fate, StatusEntry } from "./recorder.js";
import { recorderOf } from "./recorder.js";

/** The report, as JSON can hold it. */
export interface RedactedReport {
  readonly report: "escale";
  /** The version of the package. */
  readonly version: string;
  /** When it was made, in ISO 8601. */
  readonly at: string;
  readonly browser: { readonly name: string; readonly secure: boolean; readonly online: boolean; readonly locks: boolean; readonly indexedDb: boolean };
  readonly status: Readonly<Record<string, unknown>>;
  readonly faults: readonly { readonly of: string; readonly code: string }[];
  readonly memory: {
    readonly documents: number;
    readonly collections: readonly { readonly of: string; readonly v: number; readonly size: number; readonly ready: boolean }[];
  };
  readonly store: { readonly records: Readonly<Record<string, number>>; readonly bytes: number; readonly used: number | null; readonly quota: number | null; readonly persistence: string };
  readonly operations: readonly {
    readonly name: string;
    readonly of: string;
    readonly at: number;
    readonly fate: Fate;
    readonly code: string | null;
    readonly savedAfter: number | null;
    readonly endedAfter: number | null;
  }[];
  readonly network: readonly Readonly<Record<string, string | number | null>>[];
  readonly history: readonly StatusEntry[];
}

declare const __ESCALE_VERSION__: string;

/** The built-in operations. Names of others are the application's, and could hold anything. */
const BUILT_IN = ["doc.put", "doc.patch", "doc.delete", "batch"];
/** The form of the codes of Escale. Sessions give no others: a server's own code is `server_refused` to them. */
const CODE = /^[a-z][a-z_]{2,39}$/;
const TABLE = /^[a-z]$/;
const ENTRIES_MAX = 100;

/**
 * Makes a report about a session for its developer: the status, counts, versions, error codes and times. It holds no
 * value of a document, no key, no token, no address and no message. Class and collection names of the schema are in it.
 *
 * @example
 * ```js
 * import { defineSchema, open } from "escale";
 * import { redactedReport } from "escale/devtools";
 *
 * const schema = defineSchema({ Note: { key: ["id"] } });
 * const session = await open({ org: "demo", schema, server: "http://localhost:7700", mode: "incognito" });
 * const report = await redactedReport(session);
 * show(JSON.stringify(report)); // or send it to your support
 * ```
 */
export async function redactedReport(session: AnySession): Promise<RedactedReport> {
  const { store, memory } = await session.inspect({ limit: 0 });
  const { used, quota, persistence } = await session.usage();
  const { status } = session;
  const { value } = status;
  const recorder = recorderOf(session);
  const schemaWord = wordsOf(session);
  return {
    report: "escale",
    version: typeof __ESCALE_VERSION__ === "string" ? __ESCALE_VERSION__ : "unknown",
    at: new Date().toISOString(),
    browser: browser(),
    status: {
      mode: value.mode,
      phase: value.phase,
      reason: value.reason,
      updates: value.updates,
      leads: value.leads,
      pending: value.pending,
      drafts: value.drafts,
      refused: session.refused.value.length,
      progress: value.progress && { received: value.progress.received, total: value.progress.total },
      storage: value.storage,
      damaged: { ...value.damaged },
      code: codeOf(value.error?.code),
    },
    faults: Object.entries(value.faults).map(([def, { code }]) => ({ of: schemaWord(def), code: codeOf(code) ?? "unknown" })),
    memory: {
      documents: memory.documents,
      collections: memory.collections.map(({ def, v, size, ready }) => ({ of: schemaWord(def), v, size, ready })),
    },
    store: {
      records: Object.fromEntries(Object.entries(store.counts).filter(([table]) => TABLE.test(table))),
      bytes: store.bytes,
      used,
      quota,
      persistence,
    },
    operations: recorder.operations.slice(0, ENTRIES_MAX).map(({ name, className, at, fate, code, savedAfter, endedAfter }) => ({
      name: BUILT_IN.includes(name) ? name : "other",
      of: schemaWord(className ?? ""),
      at,
      fate,
      code: codeOf(code),
      savedAfter,
      endedAfter,
    })),
    network: recorder.network.slice(-ENTRIES_MAX).map(({ at, kind, ms, status: http, code, bytes, subs, ops }) => ({
      at: Math.round(at),
      kind,
      ms: ms === null ? null : Math.round(ms),
      status: http,
      code: codeOf(code),
      bytes,
      subs,
      ops,
    })),
    history: recorder.history.slice(-ENTRIES_MAX).map((entry) => ({ ...entry, code: codeOf(entry.code) })),
  };
}

/** Gives a def without its value: `Class`, `Class/collection` or `Class@`, and only if the schema declares these words. */
function wordsOf(session: AnySession): (def: string) => string {
  const classes = session.classes as Record<string, { collections?: object }>;
  return (def) => {
    const [, className = "", collection] = /^([A-Za-z0-9]+)(?:\/([A-Za-z0-9]+))?/.exec(def) ?? [];
    if (!Object.hasOwn(classes, className)) return "";
    const hasCollection = collection !== undefined && Object.hasOwn(classes[className]?.collections ?? {}, collection);
    if (hasCollection) return `${className}/${collection}`;
    return def.startsWith(`${className}@`) ? `${className}@` : className;
  };
}

function codeOf(code: string | null | undefined): string | null {
  if (code === null || code === undefined) return null;
  return CODE.test(code) ? code : "other";
}

function browser(): RedactedReport["browser"] {
  const { navigator } = globalThis as { navigator?: Partial<Navigator> };
  const agent = navigator?.userAgent ?? "";
  // The engine and its number: the whole text would help to recognise a person.
  const [name = "other"] = /(?:Firefox|Edg|Chrome|Version|Node\.js)\/\d+/.exec(agent) ?? [];
  return {
    name: name.replace("Version", "Safari"),
    secure: globalThis.isSecureContext ?? false,
    online: navigator?.onLine ?? true,
    locks: navigator?.locks !== undefined,
    indexedDb: typeof indexedDB !== "undefined",
  };
}
