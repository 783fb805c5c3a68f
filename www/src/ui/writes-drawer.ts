/** The drawer of writes: those that the server refused, those that wait for it, and those that it has answered. */

import type { PendingOperation, RefusedOperation, Theirs } from "escale";
import { fill, h } from "../dom";
import { moment, plural } from "../format";
import { icon, type IconName } from "../icons";
import { problemOf } from "../problems";
import type { Package } from "../schema";
import type { Session } from "../session";
import { describe, type Changes, type Described, type Writes } from "../writes";
import { toast } from "./toast";

/** Waiting writes that are drawn; a long offline period can produce thousands. */
const DRAWN_MAX = 100;

const STATES: Readonly<Record<PendingOperation["state"], string>> = {
  unsaved: "being saved",
  saved: "saved, waiting for the server",
  uploading: "saved, and its files are on their way",
  held: "waiting behind a refused write",
};

/** The drawer. */
export class WritesDrawer {
  private readonly dialog = h("dialog", { class: "drawer narrow", "aria-labelledby": "writes-title", testid: "writes-drawer" });
  private readonly content = h("div", { class: "drawer-content" });
  /** The refused write whose arguments are being amended. */
  private amending: string | undefined;

  constructor(
    private readonly session: Session,
    private readonly writes: Writes,
  ) {
    const close = h("button", { class: "icon-button", type: "button", "aria-label": "Close the writes", testid: "writes-close" }, icon("close"));
    close.addEventListener("click", () => this.dialog.close());
    fill(
      this.dialog,
      h("header", { class: "drawer-head" }, h("h2", { id: "writes-title" }, "Writes"), close),
      h("div", { class: "drawer-panel", tabindex: 0 }, this.content),
    );
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    document.body.append(this.dialog);
  }

  /** Opens the drawer. */
  open(): void {
    this.amending = undefined;
    if (!this.dialog.open) this.dialog.showModal();
    this.update();
  }

  /** Draws it again if it is open. */
  update(): void {
    // Text being typed must not be replaced.
    if (!this.dialog.open || this.amending !== undefined) return;
    const refused = this.session.refused.value;
    const pending = this.session.pending();
    const { answered } = this.writes;
    fill(
      this.content,
      refused.length > 0 ? section("Refused by the server", refused.map((entry) => this.refused(entry))) : null,
      pending.length > 0 ? section(plural(pending.length, "write waits", "writes wait"), pending.slice(0, DRAWN_MAX).map((one) => this.waiting(one))) : null,
      pending.length > DRAWN_MAX ? h("p", { class: "hint" }, `and ${pending.length - DRAWN_MAX} more`) : null,
      answered.length > 0
        ? section(
            "Answered",
            answered.map((one) =>
              this.withRestore(one, item(one, one.v === undefined ? "trash" : "check", one.v === undefined ? "gone" : "accepted", `${moment(one.at)}, ${one.v === undefined ? "came to nothing" : "accepted"}`)),
            ),
          )
        : null,
      refused.length + pending.length + answered.length === 0
        ? h(
            "div",
            { class: "empty" },
            h("div", { class: "emblem" }, icon("outbox")),
            h("h3", {}, "Nothing waits to be sent"),
            h("p", {}, "Your writes are listed here until you close this page. Open a package, then edit, move or delete it. This works in avion mode too: writes are stored encrypted, and sent once you are in synced mode."),
          )
        : null,
    );
  }

  /** Removes the drawer. */
  remove(): void {
    this.dialog.remove();
  }

  private waiting(operation: PendingOperation): HTMLElement {
    const detail = `${moment(operation.at)}, ${STATES[operation.state]}`;
    const described = describe(operation.name, operation.args);
    return this.withRestore(described, item(described, "pending", operation.state === "held" ? "held" : "waiting", detail));
  }

  /** A deletion by this page can be undone as long as the page knows the deleted package. */
  private withRestore({ verb, package: name }: Described, row: HTMLElement): HTMLElement {
    const taken = verb === "Delete" && row.dataset.state !== "gone" ? this.writes.takenAway(name) : undefined;
    if (taken && taken.section === undefined) row.append(button("Restore", "write-restore", () => this.writes.restore(taken.doc)));
    return row;
  }

  private refused(entry: RefusedOperation): HTMLElement {
    const described = describe(entry.name, entry.args);
    const isConflict = entry.error.code === "version_conflict";
    const text = isConflict
      ? "Someone else has changed the package since. Replace their change with yours, or keep theirs."
      : problemOf(entry.error).text;
    const row = item(described, "alert", "refused", text);
    if (entry.theirs) row.querySelector(".write-text")?.append(h("p", { class: "hint", testid: "theirs" }, theirsOf(entry.theirs)));
    row.dataset.testid = "refused";
    const actions = h(
      "div",
      { class: "write-actions" },
      isConflict
        ? button("Send mine", "refused-mine", () => this.writes.amend(entry, entry.args), true)
        : button("Try again", "refused-retry", () => this.writes.retry(entry), true),
      entry.name === "doc.patch" ? button("Change it", "refused-amend", () => this.amend(row, entry)) : null,
      button(isConflict ? "Keep theirs" : "Discard", "refused-discard", () => this.writes.discard(entry)),
    );
    row.querySelector(".write-text")?.append(h("code", { class: "code" }, entry.error.code));
    row.append(actions);
    return row;
  }

  /** Asks for other values in place of the row, and then sends the write with them. */
  private amend(row: HTMLElement, entry: RefusedOperation): void {
    const { args } = entry;
    const set = (args.set ?? {}) as Changes;
    const field = h("textarea", {
      rows: set.summary === undefined ? 1 : 3,
      maxlength: 400,
      required: true,
      "aria-label": set.summary === undefined ? "Section" : "Summary",
      testid: "amend-value",
    });
    field.value = set.summary ?? set.section ?? "";
    const name = set.summary === undefined ? "section" : "summary";
    const end = (): void => {
      this.amending = undefined;
      this.update();
    };
    const form = h(
      "form",
      { class: "amend-form" },
      field,
      h("button", { class: "button small primary", type: "submit", testid: "amend-send" }, "Send"),
      h("button", { class: "button small", type: "button", on: { click: end } }, "Cancel"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = field.value.trim();
      // An empty value counts as none. The check is needed because the browser accepts blanks in a required field.
      if (value === "") return;
      attempt(() => this.writes.amend(entry, { ...args, set: { ...set, [name]: value } }));
      end();
    });
    this.amending = entry.id;
    row.lastElementChild?.replaceWith(form);
    field.focus();
  }
}

function item({ verb, package: name, detail }: Described, mark: IconName, state: string, text: string): HTMLElement {
  return h(
    "li",
    { class: "write", "data-state": state },
    h("span", { class: "past-mark" }, icon(mark)),
    h(
      "div",
      { class: "write-text" },
      h("p", {}, h("strong", {}, verb), " ", h("span", { class: "write-package" }, name), detail ? ` ${detail}` : null),
      h("p", { class: "hint" }, text),
    ),
  );
}

/** The server's document, which caused a write to be refused. */
function theirsOf({ doc }: Theirs): string {
  if (doc === null) return "Theirs: deleted";
  const { summary, section: where } = doc as Partial<Package>;
  return `Theirs: "${summary ?? ""}", in ${where ?? "no section"}`;
}

function section(title: string, rows: HTMLElement[]): HTMLElement {
  return h("section", { class: "detail-block" }, h("h3", {}, title), h("ul", { class: "writes" }, rows));
}

function button(label: string, testid: string, run: () => unknown, primary = false): HTMLElement {
  return h(
    "button",
    { class: primary ? "button small primary" : "button small", type: "button", testid, on: { click: () => attempt(run) } },
    label,
  );
}

function attempt(run: () => unknown): void {
  try {
    run();
  } catch (error) {
    const problem = problemOf(error);
    toast(`${problem.title}. ${problem.text}`, { icon: "alert" });
  }
}
