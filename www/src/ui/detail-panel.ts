/** One package, whole: what it is, where it comes from, and which version of the document this is. */

import { fill, h } from "../dom";
import { bytes, count, date } from "../format";
import { icon } from "../icons";
import type { Library } from "../library";
import type { Package } from "../schema";
import type { Session } from "../session";
import type { Topic } from "../topics";

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

  constructor(
    private readonly session: Session,
    private readonly library: Library,
    private readonly options: { close: () => void; show: (name: string) => void },
  ) {}

  /** The package on show. */
  get current(): Package | undefined {
    return this.shown;
  }

  /** Shows a package; `undefined` closes the panel. */
  show(doc: Package | undefined): void {
    if (doc === this.shown) return;
    const changed = doc !== undefined && this.shown?.name === doc.name;
    this.shown = doc;
    this.element.hidden = doc === undefined;
    if (!doc) return fill(this.element);
    const scroll = this.element.scrollTop;
    fill(this.element, this.head(doc), this.body(doc));
    this.element.scrollTop = changed ? scroll : 0;
    this.element.classList.toggle("changed", changed);
  }

  /** Shows the newest version of the same package, or says that it is followed no more. */
  refresh(): void {
    if (!this.shown) return;
    const now = this.library.find(this.shown.name);
    if (now) this.show(now);
    else this.options.close();
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
            h("p", { class: "hint" }, "Filled ones are held on this device: choose one to see it."),
          )
        : null,
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
      // Drawn again to show the chip's new state; where the package itself left with its topic, `refresh` closes.
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
  // Data is data: only what is a web address becomes a link.
  if (!/^https?:\/\//i.test(address)) return address;
  return h(
    "a",
    { href: address, target: "_blank", rel: "noopener noreferrer", referrerpolicy: "no-referrer", class: "link" },
    address.replace(/^https?:\/\//i, "").replace(/\/$/, ""),
    icon("external"),
  );
}
