/** The panel of one package: its description, its origin, the writes to it, and its version. */

import { fill, h } from "../dom";
import { bytes, count, date } from "../format";
import { icon, type IconName } from "../icons";
import type { Library } from "../library";
import type { Package } from "../schema";
import type { Session } from "../session";
import type { Topic } from "../topics";
import { describe, type Writes } from "../writes";
import { editForm } from "./edit-form";
import { HistoryList } from "./history-list";
import { AttachmentsBlock } from "./attachments-block";
import { NotesBlock } from "./notes-block";
import { toast } from "./toast";

/** The panel. */
export class DetailPanel {
  readonly element = h("aside", {
    class: "detail",
    id: "detail",
    "aria-label": "Package",
    hidden: true,
    tabindex: -1,
    testid: "detail",
  });
  private shown: Package | undefined;
  /** Whether the form is open: documents that arrive meanwhile must not replace it. */
  private editing = false;
  private history: HistoryList | undefined;
  private notes: NotesBlock | undefined;
  private attachments: AttachmentsBlock | undefined;

  constructor(
    private readonly session: Session,
    private readonly library: Library,
    private readonly writes: Writes,
    private readonly options: { close: () => void; show: (name: string) => void },
  ) {}

  /** The package shown. */
  get current(): Package | undefined {
    return this.shown;
  }

  /** Shows a package; `undefined` closes the panel. */
  show(doc: Package | undefined): void {
    if (doc === this.shown) return;
    const changed = doc !== undefined && this.shown?.name === doc.name;
    this.shown = doc;
    this.element.hidden = doc === undefined;
    if (changed && this.editing) return;
    this.editing = false;
    if (!changed) {
      void this.notes?.end();
      this.notes = doc && new NotesBlock(this.session, this.writes, doc.name);
      void this.attachments?.end();
      this.attachments = doc && new AttachmentsBlock(this.session, this.writes, doc.name);
    }
    if (!doc) return fill(this.element);
    if (!changed) this.history = new HistoryList(this.session, doc.name, (past) => this.restore(past));
    this.draw(doc, this.body(doc), changed);
  }

  /** A write of this page was made, or answered. */
  written(): void {
    const { shown } = this;
    this.notes?.written();
    this.attachments?.written();
    if (!shown || this.editing) return;
    const now = this.library.find(shown.name);
    if (now === shown) this.draw(shown, this.body(shown), true, false);
    else void this.history?.update();
  }

  /** Shows the newest version of the same package, or says that it is no longer followed. */
  refresh(): void {
    if (!this.shown) return;
    const now = this.library.find(this.shown.name);
    if (now) this.show(now);
    else if (this.writes.takenAway(this.shown.name)) this.showTaken(this.shown);
    else this.options.close();
  }

  private draw(doc: Package, body: HTMLElement, stays: boolean, flash = stays): void {
    const scroll = this.element.scrollTop;
    const focused = document.activeElement;
    fill(this.element, this.head(doc), body);
    // The field of a note is the same element as before: its visitor goes on writing.
    if (focused instanceof HTMLElement && focused !== document.activeElement && this.element.contains(focused)) focused.focus();
    this.element.scrollTop = stays ? scroll : 0;
    this.element.classList.toggle("changed", flash);
    void this.history?.update();
  }

  /** A write of this page deleted the package or moved it out of the list: says so, and offers to undo it. */
  private showTaken(doc: Package): void {
    const taken = this.writes.takenAway(doc.name);
    if (!taken) return;
    this.editing = false;
    const { section } = taken;
    const back = h("button", { class: "button primary", type: "button", testid: "restore" }, icon("restore"), section === undefined ? "Restore it" : "Move it back");
    back.addEventListener("click", () => this.restore(doc));
    const follow = h("button", { class: "button", type: "button" }, icon("plus"), `Follow ${section ?? ""}`);
    follow.addEventListener("click", () => this.library.follow({ kind: "section", name: section ?? "" }));
    const body = h(
      "div",
      { class: "detail-body" },
      h(
        "div",
        { class: "taken", testid: "taken" },
        h("h3", {}, section === undefined ? "You deleted this package" : `You moved this package to ${section}`),
        h(
          "p",
          {},
          section === undefined
            ? "It has left every list on this device. The server receives the change next."
            : "You do not follow that section, so the package leaves this device.",
        ),
        h("div", { class: "edit-actions" }, back, section === undefined ? null : follow),
      ),
      this.historyBlock(),
    );
    this.draw(doc, body, true, false);
  }

  private restore(doc: Package): void {
    this.attempt(() => this.writes.restore(doc));
  }

  private edit(doc: Package): void {
    const basis = this.writes.basis(doc);
    const form = editForm(this.writes, basis, () => {
      this.editing = false;
      const now = this.library.find(doc.name);
      if (now) this.draw(now, this.body(now), true, false);
      this.shown = now ?? doc;
      this.element.focus({ preventScroll: true });
    });
    this.editing = true;
    fill(this.element, this.head(doc), h("div", { class: "detail-body" }, form, this.historyBlock()));
    this.element.scrollTop = 0;
    form.querySelector("textarea")?.focus();
  }

  private remove(doc: Package): void {
    this.attempt(() => this.writes.remove(doc));
  }

  private attempt(write: () => void): void {
    try {
      write();
    } catch (error) {
      toast(error instanceof Error ? error.message : "It could not be written.", { icon: "alert" });
    }
  }

  private actions(doc: Package): HTMLElement {
    const button = (name: IconName, label: string, testid: string, run: () => void): HTMLElement =>
      h("button", { class: "button small", type: "button", testid, on: { click: run } }, icon(name), label);
    return h(
      "div",
      { class: "detail-actions" },
      button("edit", "Edit or move", "edit", () => this.edit(doc)),
      button("trash", "Delete", "delete", () => this.remove(doc)),
    );
  }

  private historyBlock(): HTMLElement | null {
    return this.history ? block("Written on this device", this.history.element) : null;
  }

  /** The state of unfinished writes on this package, if there are any. */
  private pill(doc: Package): HTMLElement | null {
    if (this.session.refused.value.some(({ name, args }) => describe(name, args).package === doc.name)) {
      return h("p", { class: "pill", "data-state": "refused", testid: "detail-pill" }, icon("alert"), "A write was refused");
    }
    if (!this.session.meta(doc)?.pending) return null;
    return h("p", { class: "pill", testid: "detail-pill" }, icon("pending"), "Waiting for the server");
  }

  private head(doc: Package): HTMLElement {
    return h(
      "header",
      { class: "detail-head" },
      h(
        "div",
        { class: "detail-title" },
        h("h2", { testid: "detail-name" }, doc.name),
        h("p", { class: "detail-version" }, doc.version),
        this.pill(doc),
      ),
      h(
        "button",
        { class: "icon-button", type: "button", "aria-label": "Close the package", testid: "detail-close", on: { click: this.options.close } },
        icon("close"),
      ),
    );
  }

  private body(doc: Package): HTMLElement {
    const meta = this.session.meta(doc);
    return h(
      "div",
      { class: "detail-body" },
      h("p", { class: "detail-summary", testid: "detail-summary" }, doc.summary),
      this.actions(doc),
      h(
        "div",
        { class: "figures" },
        figure(bytes(doc.installedSize * 1024), "installed"),
        figure(bytes(doc.size), "to download"),
        figure(count(doc.depends.length), doc.depends.length === 1 ? "dependency" : "dependencies"),
      ),
      h(
        "dl",
        { class: "facts" },
        row("Section", this.topicChip({ kind: "section", name: doc.section })),
        row("Priority", doc.priority),
        row("Maintainer", doc.maintainer),
        doc.homepage ? row("Homepage", homepage(doc.homepage)) : null,
      ),
      doc.tags.length > 0
        ? block(`Tags`, h("div", { class: "chips" }, doc.tags.map((name) => this.topicChip({ kind: "tag", name }))))
        : null,
      doc.depends.length > 0
        ? block(
            "Depends on",
            h("div", { class: "chips" }, doc.depends.map((name) => this.dependency(name))),
            h("p", { class: "hint" }, "Filled ones are on this device: choose one to see it."),
          )
        : null,
      this.notes?.element ?? null,
      this.attachments?.element ?? null,
      this.historyBlock(),
      block(
        "This document",
        h(
          "dl",
          { class: "facts mono-facts" },
          row("v", meta ? `${meta.v}` : "unknown"),
          meta ? row("that is", date(meta.v)) : null,
          row("sha256", h("span", { class: "hash" }, doc.sha256)),
        ),
      ),
    );
  }

  private topicChip(topic: Topic): HTMLElement {
    const followed = this.library.topic(topic) !== undefined;
    const label = followed ? `Stop following ${topic.name}` : `Follow ${topic.name}`;
    const chip = h(
      "button",
      { class: "chip", type: "button", "data-state": followed ? "on" : "off", "aria-pressed": String(followed), title: label },
      h("span", { class: "chip-mark" }, icon(followed ? "check" : "plus")),
      h("span", { class: "chip-name" }, topic.name),
    );
    chip.addEventListener("click", () => {
      if (this.library.topic(topic)) this.library.unfollow(topic);
      else this.library.follow(topic);
      const current = this.shown;
      // Drawn again to show the chip's new state. If the package left together with its topic, `refresh` closes the
      // panel.
      this.shown = undefined;
      this.show(current);
    });
    return chip;
  }

  private dependency(name: string): HTMLElement {
    if (!this.library.find(name)) return h("span", { class: "chip plain" }, name);
    return h(
      "button",
      { class: "chip held", type: "button", on: { click: () => this.options.show(name) } },
      name,
    );
  }
}

function figure(value: string, label: string): HTMLElement {
  return h("div", { class: "figure" }, h("strong", {}, value), h("span", {}, label));
}

function row(term: string, value: Node | string): HTMLElement {
  return h("div", {}, h("dt", {}, term), h("dd", {}, value));
}

function block(title: string, ...content: Node[]): HTMLElement {
  return h("section", { class: "detail-block" }, h("h3", {}, title), content);
}

function homepage(address: string): Node | string {
  // Only a web address becomes a link: the data is not trusted.
  if (!/^https?:\/\//i.test(address)) return address;
  return h(
    "a",
    { href: address, target: "_blank", rel: "noopener noreferrer", referrerpolicy: "no-referrer", class: "link" },
    address.replace(/^https?:\/\//i, "").replace(/\/$/, ""),
    icon("external"),
  );
}
