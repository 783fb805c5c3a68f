/** The history of a package on this device: the states written here, newest first. */

import type { PastState } from "escale";
import { fill, h } from "../dom";
import { moment } from "../format";
import { icon } from "../icons";
import type { Package } from "../schema";
import type { Session } from "../session";

/** The fate of a state, as an icon and in words. */
const ICONS = { accepted: "check", refused: "alert", waiting: "pending" } as const;
const FATES = { accepted: "accepted", refused: "refused by the server", waiting: "waiting for the server" } as const;

/** A list that reads the journal again at every `update`. */
export class HistoryList {
  readonly element = h("ol", { class: "history", testid: "history" });
  private reading = 0;

  constructor(
    private readonly session: Session,
    private readonly name: string,
    private readonly restore: (doc: Package) => void,
  ) {}

  /** Reads the journal. */
  async update(): Promise<void> {
    const reading = (this.reading += 1);
    const past = await this.session.history("Package", [this.name]).catch(() => []);
    // A later reading is in progress, and has newer data.
    if (reading !== this.reading) return;
    const states = past.filter(({ type }) => type === "persist");
    const refused = new Set(this.session.refused.value.map(({ id }) => id));
    if (states.length === 0) fill(this.element, h("li", { class: "hint" }, "This device has written no change to it."));
    else fill(this.element, states.map((state, i) => this.state(state, refused.has(state.op), states[i - 1], i === states.length - 1)).reverse());
  }

  private state(state: PastState<Package>, isRefused: boolean, before: PastState<Package> | undefined, newest: boolean): HTMLElement {
    const { doc, commit } = state;
    const fate = commit !== null ? "accepted" : isRefused ? "refused" : "waiting";
    return h(
      "li",
      { class: "past", "data-state": fate },
      h("span", { class: "past-mark" }, icon(ICONS[fate])),
      h(
        "div",
        {},
        h("p", { class: "past-what" }, doc ? h("span", {}, textOfChanges(doc, before?.doc)) : h("em", {}, "Deleted")),
        h("p", { class: "hint" }, `${moment(state.at)}, ${FATES[fate]}`),
      ),
      doc && !newest
        ? h("button", { class: "button small", type: "button", on: { click: () => this.restore(doc) } }, "Bring back")
        : null,
    );
  }
}

function textOfChanges(doc: Package, before: Package | null | undefined): string {
  if (before === null) return "Put back";
  // The state before this device's first write is not in its journal.
  if (before?.section === doc.section) return doc.summary;
  return before?.summary === doc.summary ? `Moved to ${doc.section}` : `In ${doc.section}: ${doc.summary}`;
}
