/** The tabs of the panel that show the session as it is: overview, subscriptions, operations, network, and the report. */

import { bytes, count, duration, facts, fill, h, none, table, time } from "./dom.js";
import type { AnySession, Fate, Recorder } from "./recorder.js";
import { redactedReport } from "./report.js";

/** The context of a tab. */
export interface TabContext {
  readonly session: AnySession;
  readonly recorder: Recorder;
  /** Says a sentence to screen readers, and shows it. */
  readonly say: (text: string) => void;
  /** Ends a subscription, unless the page does it in its own way. */
  readonly unsubscribe: (def: string) => void;
  /** Draws the tab again. */
  readonly redraw: () => void;
}

/** A tab. */
export interface Tab {
  readonly id: string;
  readonly title: string;
  /** Whether it is drawn again when something changes. Otherwise the user asks for it. */
  readonly isLive: boolean;
  draw(panel: HTMLElement, context: TabContext): void | Promise<void>;
}

const PHASES: Readonly<Record<string, string>> = { live: "good", offline: "warn", paused: "warn", closed: "bad" };
const FATES: Readonly<Partial<Record<Fate, string>>> = { accepted: "good", refused: "bad", failed: "bad", held: "warn", left: "", amended: "" };

const tag = (text: string, tone = ""): HTMLElement => h("span", { class: `tag ${tone}` }, text);

export const overview: Tab = {
  id: "overview",
  title: "Overview",
  isLive: true,
  draw(panel, { session, recorder }) {
    const { phase, reason, mode, updates, leads, pending, drafts, progress, storage, damaged, error, faults } = session.status.value;
    fill(
      panel,
      facts([
        ["Phase", tag(reason ?? phase, PHASES[phase])],
        ["Mode", mode],
        ["Changes", updates ?? "no server is asked by this tab"],
        ["This tab", leads ? "talks to the server" : "follows another tab, or none"],
        ["Waiting", `${count(pending)} ${pending === 1 ? "operation" : "operations"}`],
        ["Refused", count(session.refused.value.length)],
        ["On this device alone", `${count(drafts)} ${drafts === 1 ? "local document" : "local documents"}`],
        ["Storage", tag(storage, storage === "ok" ? "good" : storage === "none" ? "" : "warn")],
        ["Loading", progress ? `${count(progress.received)} of ${progress.total === null ? "?" : count(progress.total)}` : "no"],
        ["Damaged", `${damaged.documents} documents, ${damaged.collections} collections, ${damaged.operations} operations`],
      ]),
      h("h3", {}, "Last error"),
      error ? errorLine(error) : none("None."),
      Object.keys(faults).length > 0 && [
        h("h3", {}, "Refused subscriptions"),
        table("Refused subscriptions", ["Def", "Error"], Object.entries(faults).map(([def, fault]) => [h("code", {}, def), errorLine(fault as Shown)])),
      ],
      h("h3", {}, "Changes of the status"),
      recorder.history.length === 0
        ? none("None yet.")
        : table(
            "Changes of the status",
            ["Time", "Phase", "Mode", "Changes", "Storage", "Leads", "Error"],
            recorder.history
              .slice(-50)
              .reverse()
              .map((entry) => [time(entry.at), tag(entry.phase, PHASES[entry.phase]), entry.mode, entry.updates ?? "-", entry.storage, entry.leads ? "yes" : "no", entry.code ?? ""]),
          ),
    );
  },
};

interface Shown {
  readonly code: string;
  readonly message: string;
  readonly cure: string;
}

function errorLine({ code, message, cure }: Shown): HTMLElement {
  return h("p", {}, h("code", { class: "bad" }, code), ` ${message} `, h("em", {}, cure));
}

export const subscriptions: Tab = {
  id: "subscriptions",
  title: "Subscriptions",
  isLive: true,
  async draw(panel, { session, redraw, say, unsubscribe }) {
    const { memory } = await session.inspect({ limit: 0 });
    const subscribed = new Set(session.subscriptions());
    const { faults } = session.status.value;
    const collections = [...memory.collections].sort((a, b) => (a.def < b.def ? -1 : 1));
    const stop = (def: string): void => {
      unsubscribe(def);
      say(`The subscription to ${def} has ended.`);
      redraw();
    };
    fill(
      panel,
      h("p", { part: "totals", "data-documents": memory.documents, "data-collections": collections.length }, `${count(memory.documents)} documents in memory, ${count(collections.length)} subscriptions.`),
      collections.length === 0
        ? none("The session is subscribed to nothing.")
        : table(
            "Subscriptions",
            ["Def", "Documents", "State", "Version", ""],
            collections.map(({ def, v, size, ready }) => [
              h("code", { part: "collection", "data-def": def, "data-v": v, "data-size": size, "data-ready": ready ? "true" : "false" }, def),
              count(size),
              faults[def] ? tag(faults[def].code, "bad") : ready ? tag("ready", "good") : tag("loading", "warn"),
              v === 0 ? "never loaded whole" : h("span", { title: new Date(v).toISOString() }, String(v)),
              subscribed.has(def) && h("button", { type: "button", "data-focus": `stop ${def}`, "aria-label": `Unsubscribe from ${def}`, onclick: () => stop(def) }, "Unsubscribe"),
            ]),
          ),
    );
  },
};

export const operations: Tab = {
  id: "operations",
  title: "Operations",
  isLive: true,
  draw(panel, { session, recorder, say, redraw }) {
    const refused = new Map(session.refused.value.map((operation: { id: string }) => [operation.id, operation] as const));
    const list = recorder.operations;
    const decide = (id: string, decision: "retry" | "discard"): void => {
      const operation = refused.get(id) as Record<typeof decision, () => unknown> | undefined;
      operation?.[decision]();
      say(decision === "retry" ? "The operation is sent again." : "The operation is discarded.");
      redraw();
    };
    const buttons = (id: string): HTMLElement[] =>
      (["retry", "discard"] as const).map((decision) =>
        h("button", { type: "button", "data-focus": `${decision} ${id}`, onclick: () => decide(id, decision) }, decision === "retry" ? "Retry" : "Discard"),
      );
    fill(
      panel,
      list.length === 0
        ? none("No operation since this panel began to look, and none that waits.")
        : table(
            "Operations",
            ["Issued", "Name", "Class", "Fate", "Saved after", "Ended after", "Id"],
            list.map(({ id, name, className, at, fate, code, savedAfter, endedAfter }) => [
              time(at),
              name,
              className ?? "-",
              [tag(fate, FATES[fate] ?? "warn"), code && [" ", h("code", {}, code)], refused.has(id) && [" ", buttons(id)]],
              duration(savedAfter),
              duration(endedAfter),
              h("code", {}, id),
            ]),
          ),
    );
  },
};

export const network: Tab = {
  id: "network",
  title: "Network",
  isLive: true,
  draw(panel, { recorder }) {
    const shown = recorder.network.slice(-100).reverse();
    fill(
      panel,
      shown.length === 0
        ? none("No request yet. A session over an adapter object shows them if `watchServer` wraps the adapter.")
        : table(
            "Requests",
            ["Time", "Kind", "Took", "Status", "Reply", "Subscriptions", "Operations"],
            shown.map(({ at, kind, ms, status, code, bytes: size, subs, ops }) => [
              time(at),
              kind,
              duration(ms),
              code ? tag(code, "bad") : status === null ? "-" : tag(String(status), status < 400 ? "good" : "bad"),
              size === null ? "-" : bytes(size),
              subs ?? "-",
              ops ?? "-",
            ]),
          ),
    );
  },
};

export const report: Tab = {
  id: "report",
  title: "Report",
  isLive: false,
  async draw(panel, { session, say, redraw }) {
    const text = JSON.stringify(await redactedReport(session), null, 2);
    const copy = async (): Promise<void> => {
      try {
        await navigator.clipboard.writeText(text);
        say("The report is on the clipboard.");
      } catch {
        say("The browser does not allow to copy: mark the text and copy it.");
      }
    };
    const save = (): void => {
      const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      h("a", { href: url, download: "escale-report.json" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1_000);
      say("The report is saved.");
    };
    fill(
      panel,
      h("p", {}, "Counts, versions, codes and times, and the names of classes and collections. It holds no document, key, token, address or message."),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "main", "data-focus": "copy", onclick: () => void copy() }, "Copy"),
        h("button", { type: "button", "data-focus": "save", onclick: save }, "Save as a file"),
        h("button", { type: "button", "data-focus": "again", onclick: redraw }, "Make it again"),
      ),
      h("pre", { tabindex: 0, part: "report", role: "region", "aria-label": "The report", class: "wrap" }, text),
    );
  },
};
